"""Notices to people: mail, chats, webhooks, and what Apprise knows."""

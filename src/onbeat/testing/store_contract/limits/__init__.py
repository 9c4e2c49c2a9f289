"""Limits of queues and groups, and turns in fair queues."""

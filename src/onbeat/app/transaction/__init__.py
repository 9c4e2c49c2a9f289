"""Sending and settling inside the caller's database transaction."""

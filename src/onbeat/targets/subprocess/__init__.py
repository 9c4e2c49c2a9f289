"""Handlers in separate processes."""

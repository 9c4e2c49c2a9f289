"""Targets: a runner for each kind of work."""

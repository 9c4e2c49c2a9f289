"""Runs programs on the worker's machine."""

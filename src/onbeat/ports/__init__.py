"""Protocols of the external dependencies of engine and operations."""

"""Adapters of `onbeat.ports.expressions`."""

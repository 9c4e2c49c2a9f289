"""Drawings: pure functions from records to numbers, path data and elements; no clock."""

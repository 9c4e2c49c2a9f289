"""Copies of a whole store into another."""

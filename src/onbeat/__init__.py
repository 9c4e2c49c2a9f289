"""Onbeat runs work on time, once it is due, and remembers."""

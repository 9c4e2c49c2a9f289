"""Decisions: records and a time in, a record out."""

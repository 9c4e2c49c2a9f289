"""Loads: jobs at a rate, to measure a service or a store."""

"""Transports: how jobs get from the dispatcher to the worker."""

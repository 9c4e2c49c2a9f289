"""Adapters of the durable state, one package or module each."""

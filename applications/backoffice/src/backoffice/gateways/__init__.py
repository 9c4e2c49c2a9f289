"""Charge cards: one protocol, and an adapter for each provider."""

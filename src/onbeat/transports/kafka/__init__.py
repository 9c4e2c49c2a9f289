"""Kafka, and what speaks its language."""

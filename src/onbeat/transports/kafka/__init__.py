"""Kafka and compatible brokers."""

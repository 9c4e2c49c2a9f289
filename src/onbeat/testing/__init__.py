"""Public test helpers: builders of records, and the contracts of stores and brokers."""

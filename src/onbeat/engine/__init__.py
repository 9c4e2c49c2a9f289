"""The loops of the engine: each step reads from the store, applies a rule and writes once."""

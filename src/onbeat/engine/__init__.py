"""The loops: each reads from the store, asks a rule and writes back once."""

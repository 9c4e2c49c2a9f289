"""The wire format: JSON on one side, records on the other."""

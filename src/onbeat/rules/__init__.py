"""Pure decision rules: they take records and a time, and return records."""

"""A shop that sends a mail for each order."""

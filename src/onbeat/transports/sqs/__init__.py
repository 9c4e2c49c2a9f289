"""Amazon SQS, and what speaks its language."""

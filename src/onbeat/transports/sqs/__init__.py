"""Amazon SQS and compatible services."""

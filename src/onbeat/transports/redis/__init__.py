"""Redis, with a stream and one consumer group for each queue."""

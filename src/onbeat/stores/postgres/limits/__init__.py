"""Claims from limited queues, and turns of groups."""

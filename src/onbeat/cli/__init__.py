"""The command line: turns options into a request to an operation, and prints its answer."""

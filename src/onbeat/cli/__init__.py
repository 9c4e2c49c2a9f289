"""The command line: options in, one request to an operation out, an answer shown."""

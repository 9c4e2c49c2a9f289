"""Where work ends up: each target runs one kind of attempt."""

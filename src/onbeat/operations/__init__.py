"""What a caller may ask: one function per verb, each with almost no branches."""

"""The operations of the API: one function per operation, each with almost no branches."""

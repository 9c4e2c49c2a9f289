"""The store in one schema of a PostgreSQL database."""

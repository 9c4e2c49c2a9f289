"""One function for each page: it asks operations, and names a template with its values."""

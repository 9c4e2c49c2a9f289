"""`onbeat top`: the first page of the dashboard in a terminal."""

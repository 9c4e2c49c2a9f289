"""What the stores on servers have in common."""

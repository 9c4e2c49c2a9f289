"""Files of uploads: which are still wanted, and how the others go."""

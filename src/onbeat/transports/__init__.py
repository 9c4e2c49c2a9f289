"""Ways from dispatcher to worker."""

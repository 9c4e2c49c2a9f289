"""What Onbeat tells of itself: log lines and metrics."""

"""The house-keeping of a location game: free credits, stale purchases, orphaned uploads."""

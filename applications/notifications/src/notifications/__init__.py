"""Who wants what, when: recipients, topics, preferences, and ways to unsubscribe."""

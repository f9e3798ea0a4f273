"""One small program per Python client: each does a task, bounded in count, and prints one JSON."""

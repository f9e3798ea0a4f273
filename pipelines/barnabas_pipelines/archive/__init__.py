"""The archive of topics: what it looks like on disk, and how batches get there exactly once."""

"""Kafka's log format on disk: segments, indexes, recovery, retention, compaction."""

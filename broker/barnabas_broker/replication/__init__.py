"""Partitions: leadership, high watermark, produce and fetch."""

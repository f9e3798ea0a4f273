"""Compaction: keeps the newest record of each key."""

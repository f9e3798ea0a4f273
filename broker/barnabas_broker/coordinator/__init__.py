"""Coordinator shards on one runtime."""

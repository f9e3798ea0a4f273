"""Listeners, connections, ordered replies."""

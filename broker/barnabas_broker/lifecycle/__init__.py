"""A broker in its cluster: registration, heartbeats, applied metadata, controlled shutdown."""

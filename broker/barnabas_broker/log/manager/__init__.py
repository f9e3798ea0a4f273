"""All log directories: the logs in them, their life from load to close, and the room they have."""

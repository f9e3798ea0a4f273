"""The assignors that the coordinator runs for consumer groups."""

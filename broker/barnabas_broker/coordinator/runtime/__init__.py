"""Commands in, records out, replies when committed."""

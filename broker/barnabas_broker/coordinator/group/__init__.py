"""Consumer groups and their offsets."""

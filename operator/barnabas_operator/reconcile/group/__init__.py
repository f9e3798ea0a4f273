"""Consumer groups: observing them, and safe one-shot operations on their offsets."""

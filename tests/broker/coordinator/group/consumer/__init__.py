"""Consumer groups of the coordinator."""

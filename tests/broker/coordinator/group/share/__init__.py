"""Share groups of the coordinator."""

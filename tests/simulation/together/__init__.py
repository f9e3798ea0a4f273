"""Our own clients against whole brokers, on one virtual time; see docs/simulation.md."""

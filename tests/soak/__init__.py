"""Hours of real brokers, real clients and faults at random: `make soak MINUTES=n`."""

"""Attacks on the promises of the Python client: faults of the network, cancellation, haste."""

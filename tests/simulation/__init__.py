"""Whole brokers on virtual time and a simulated disk, network and clock."""

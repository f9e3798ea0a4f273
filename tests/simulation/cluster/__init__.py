"""Whole clusters in one process: brokers, clients and faults on one virtual-time loop."""

"""Stories of the operator: its three planners, a model of Kubernetes, one of the brokers, users.

Everything runs on virtual time, from a seed: `python -m tests.simulation.operator`.
"""

"""Reconciling of declared topics and, later, brokers and consumer groups."""

"""Reconciles Users: credentials, rights, quotas, and what their clients need to connect."""

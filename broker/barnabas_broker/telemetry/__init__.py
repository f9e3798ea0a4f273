"""Metrics that clients push to the broker (KIP-714): what is pushed, and what is shown."""

"""The webhook that the API server asks before it evicts a pod."""

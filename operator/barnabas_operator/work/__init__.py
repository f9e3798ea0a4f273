"""The queue of what is to be reconciled."""

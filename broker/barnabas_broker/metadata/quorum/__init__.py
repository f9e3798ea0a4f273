"""The metadata log among its voters: who leads it, what is committed, requests both ways."""

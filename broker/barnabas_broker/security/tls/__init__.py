"""TLS: keys and certificates, contexts made of them, and their renewal."""

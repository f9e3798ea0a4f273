"""What Prometheus sees, read from the objects that own the numbers."""

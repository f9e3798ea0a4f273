"""Makes the documentation site and its drawings; what it needs is in requirements/docs.txt."""

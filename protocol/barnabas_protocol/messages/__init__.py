"""One module per API key: the schemas of its request and response."""

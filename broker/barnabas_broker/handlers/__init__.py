"""One module per API key: check, call, answer."""

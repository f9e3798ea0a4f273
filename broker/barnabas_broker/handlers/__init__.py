"""One module per API key: check the request, call the owner, make the response."""

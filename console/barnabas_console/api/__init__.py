"""The API of the page, `/api/v1`: a module per page, each with `routes(context)`."""

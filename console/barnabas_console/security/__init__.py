"""Who may ask the console for what: rules over requests, headers of responses, one-time tickets."""

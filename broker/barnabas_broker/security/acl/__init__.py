"""ACLs: what one is, which fit a filter, and what they decide. Pure."""

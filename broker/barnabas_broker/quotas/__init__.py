"""What quotas count: rates over a window, tokens, and a limit for each bucket."""

"""Programs that prove claims about security under load."""

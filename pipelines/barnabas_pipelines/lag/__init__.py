"""What `lag-report` finds, and how it is shown."""

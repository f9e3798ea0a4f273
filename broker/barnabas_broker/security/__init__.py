"""Who is connected and what they may do."""

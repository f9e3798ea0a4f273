"""How `aggregate` writes: from one driver at a time, into topics that stay the same."""

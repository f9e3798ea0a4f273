"""From an archive back to a topic: which records, how fast, and where a broken run goes on."""

"""What a leader does: it serves produce and fetch requests, and knows how far its followers are."""

"""The transaction coordinator: who writes under a transactional id, in what, and how it ended."""

"""The archive of topics: what its next batch reads, how it is written, and whether it is whole."""

"""The consumer: reading records, alone or as a member of a group."""

"""The latest value of each key of a topic as a table: what is read next, and its rows."""

"""JSON Web Tokens, the keys that sign them, and whether one is good: for all who verify one."""

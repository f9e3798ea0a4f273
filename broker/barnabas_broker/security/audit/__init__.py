"""The audit log: who did what, who was not allowed to, who could not log in."""

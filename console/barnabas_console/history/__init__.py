"""What the console remembers: numbers of the last hour, and the last changes (CON-123, CON-137)."""

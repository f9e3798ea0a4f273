"""Log-ins side by side: real clients, every way in, and the ways in which that fails."""

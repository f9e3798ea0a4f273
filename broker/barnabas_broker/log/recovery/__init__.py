"""Loading the log in a partition directory, and recovery after an unclean stop."""

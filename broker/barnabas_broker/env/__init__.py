"""Clock, Disk, Network and Random: the only way to the outside."""

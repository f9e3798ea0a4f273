"""Files and folders that jobs write by themselves, on this machine or wherever Spark can write."""

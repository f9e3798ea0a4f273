"""The Python data source `barnabas`: batch and streaming reads and writes without jars."""

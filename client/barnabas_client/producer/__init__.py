"""The producer: records in, acknowledgements out (`producer.py` is where to start reading)."""

"""One connection of Kafka's protocol without I/O: bytes in, typed events out, for both roles."""

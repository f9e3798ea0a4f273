"""Our own clients, unchanged, on virtual time against brokers that obey Kafka's rules and fail."""

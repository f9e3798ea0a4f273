"""An asyncio client for brokers that speak the Kafka protocol: producer, consumer, admin."""

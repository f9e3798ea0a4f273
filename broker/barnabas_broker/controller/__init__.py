"""The one event queue that decides about topics, configs and brokers."""

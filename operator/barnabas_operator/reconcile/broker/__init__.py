"""The brokers of one Broker resource: what is there, what is done about it, and the status."""

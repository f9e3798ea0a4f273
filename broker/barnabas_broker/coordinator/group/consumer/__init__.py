"""Groups of the consumer group protocol (KIP-848): the coordinator assigns partitions."""

"""Kafka's wire protocol: messages, record batches and errors; no input or output, no clock."""

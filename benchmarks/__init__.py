"""Barnabas beside Apache Kafka on one machine; see README.md for how to read the results."""

"""The console: a web page about a cluster, in a process of its own; Apache Kafka will do, too.

It reaches brokers by `barnabas_client` alone, as any other client does.
"""

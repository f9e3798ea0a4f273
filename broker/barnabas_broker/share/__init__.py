"""Share partitions: records of a topic as a queue (KIP-932), on the leader of each partition."""

"""What the client knows of the cluster: nodes, topics, leaders and their epochs."""

from barnabas_client.cluster.metadata import (
    ClusterMetadata,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata

__all__ = [
    "ClusterMetadata",
    "ConsumerGroupMetadata",
    "Node",
    "OffsetAndMetadata",
    "PartitionMetadata",
    "TopicMetadata",
]

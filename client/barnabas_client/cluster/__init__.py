"""What the client knows of the cluster: nodes, topics, leaders and their epochs."""

from barnabas_client.cluster.metadata import (
    ClusterMetadata,
    Node,
    PartitionMetadata,
    TopicMetadata,
)

__all__ = ["ClusterMetadata", "Node", "PartitionMetadata", "TopicMetadata"]

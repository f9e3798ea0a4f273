"""The states of replicas as Metadata and DescribeTopicPartitions list them."""

from collections.abc import Mapping

from barnabas_broker.metadata.image import BrokerImage, PartitionImage
from barnabas_protocol.ids import ZERO_UUID


def offline_replicas(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> list[int]:
    """The nodes whose replica is not there: fenced or gone, or with its log directory offline."""
    offline = []
    for position, node_id in enumerate(partition.replicas):
        broker = brokers.get(node_id)
        if broker is None or broker.fenced:
            offline.append(node_id)
        elif partition.directories and broker.directories:
            directory_id = partition.directories[position]
            if directory_id != ZERO_UUID and directory_id not in broker.directories:
                offline.append(node_id)
    return offline

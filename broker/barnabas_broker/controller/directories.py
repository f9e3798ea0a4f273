"""Which log directory holds each replica, as its broker reports it: a pure command.

Source: LOG-11, NODE-8, KIP-858. Not here: where a log is put (the broker's log manager).
Invariant: a directory that is remembered changes only when its broker has the log somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_protocol.ids import ZERO_UUID, TopicPartition


def initial_directories(image: MetadataImage, replicas: Sequence[int]) -> tuple[bytes, ...]:
    """The directories of a new partition as far as its brokers have no choice; else none."""
    directories = []
    for node_id in replicas:
        broker = image.brokers.get(node_id)
        only = broker is not None and len(broker.directories) == 1
        directories.append(broker.directories[0] if broker is not None and only else ZERO_UUID)
    return tuple(directories) if any(item != ZERO_UUID for item in directories) else ()


def assign_directories(
    image: MetadataImage, node_id: int, directories: Mapping[TopicPartition, bytes]
) -> tuple[list[MetadataRecord], None]:
    """The records of where a broker has put its replicas; what is gone meanwhile is left out."""
    records: list[MetadataRecord] = []
    for (name, index), directory_id in directories.items():
        topic = image.topics.by_name.get(name)
        if topic is None or index >= len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if node_id not in partition.replicas:
            continue
        place = partition.replicas.index(node_id)
        known = list(partition.directories or [ZERO_UUID] * len(partition.replicas))
        if known[place] == directory_id:
            continue
        known[place] = directory_id
        records.append(
            PartitionRecord(
                topic.topic_id,
                index,
                partition.replicas,
                partition.isr,
                partition.leader,
                partition.leader_epoch,
                partition.partition_epoch + 1,
                tuple(known),
            )
        )
    return records, None

"""Which log directory holds each replica, as its broker reports it: pure commands.

Source: LOG-11, NODE-8, KIP-858. Not here: where a log is put (the broker's log manager), what
becomes of replicas whose directory fails (`elections`). From level 2 of `barnabas.version` on, a
replica whose directory its broker has no more is no replica that could lead: it begins anew.
Invariant: a directory that is remembered changes only when its broker has the log somewhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from barnabas_broker.controller.brokers import check_broker_epoch
from barnabas_broker.controller.partition_change import Candidates, change_partition, renewed
from barnabas_broker.metadata.image import MetadataImage, PartitionImage
from barnabas_broker.metadata.records import MetadataRecord, PartitionRecord
from barnabas_protocol.errors import ErrorCode
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
    candidates = Candidates(image)
    records: list[MetadataRecord] = []
    for (name, index), directory_id in directories.items():
        topic = image.topics.by_name.get(name)
        if topic is None or index >= len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if node_id in partition.replicas:
            records += _moved(candidates, topic.topic_id, index, partition, node_id, directory_id)
    return records, None


def assign_replicas(
    image: MetadataImage,
    node_id: int,
    broker_epoch: int,
    assigned: Mapping[tuple[bytes, int], bytes],
) -> tuple[list[MetadataRecord], dict[tuple[bytes, int], ErrorCode]]:
    """The same for topic ids, and what became of each partition: errors 100, 3 and 6 as in Kafka.

    Raises: KafkaError 77, 102.
    """
    check_broker_epoch(image, node_id, broker_epoch)
    candidates = Candidates(image)
    records: list[MetadataRecord] = []
    codes: dict[tuple[bytes, int], ErrorCode] = {}
    for (topic_id, index), directory_id in assigned.items():
        topic = image.topics.by_id.get(topic_id)
        code = ErrorCode.NONE
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not 0 <= index < len(topic.partitions):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif node_id not in topic.partitions[index].replicas:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            partition = topic.partitions[index]
            records += _moved(candidates, topic_id, index, partition, node_id, directory_id)
        codes[topic_id, index] = code
    return records, codes


def _moved(
    candidates: Candidates,
    topic_id: bytes,
    index: int,
    partition: PartitionImage,
    node_id: int,
    directory_id: bytes,
) -> list[PartitionRecord]:
    """The record of one replica's directory; none if it is known.

    Which directory it is may decide who can lead: nobody in one that has failed meanwhile; and a
    partition that nobody led for want of the directory of its replica has a leader again.
    """
    place = partition.replicas.index(node_id)
    known = list(partition.directories or [ZERO_UUID] * len(partition.replicas))
    if known[place] == directory_id:
        return []
    has_elr = candidates.min_in_sync.of(topic_id) is not None
    is_new = has_elr and not candidates.has_replica(node_id, partition)
    known[place] = directory_id
    placed = replace(partition, directories=tuple(known))
    isr = placed.isr
    if is_new or not candidates.has_replica(node_id, placed):
        isr = tuple(node for node in isr if node != node_id)
    if is_new:
        # Its directory is gone, and the replica with it: this one is another, and begins empty.
        placed = replace(
            placed,
            isr=isr,
            eligible_leader_replicas=_without(placed.eligible_leader_replicas, node_id),
            last_known_elr=_without(placed.last_known_elr, node_id),
        )
    record = change_partition(topic_id, index, placed, candidates, isr=isr)
    if record is not None:
        return [record]
    return [renewed(topic_id, index, placed)]


def _without(nodes: tuple[int, ...], removed: int) -> tuple[int, ...]:
    return tuple([node for node in nodes if node != removed])

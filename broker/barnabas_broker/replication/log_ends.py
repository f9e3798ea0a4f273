"""How far the replicas of this broker reach: what the controller compares (KIP-966, LEAD-7)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_broker.metadata.log_ends import LogEnd
from barnabas_broker.replication.replica_set import ReplicaSet
from barnabas_protocol.ids import TopicPartition


def log_ends(
    replicas: ReplicaSet, asked: Iterable[tuple[bytes, int]]
) -> dict[tuple[bytes, int], LogEnd]:
    """The ends of the logs of some partitions, by topic id and partition.

    What is not here, or in a directory that has failed, is left out.
    """
    by_id = replicas.image.topics.by_id
    ends: dict[tuple[bytes, int], LogEnd] = {}
    for topic_id, index in asked:
        topic = by_id.get(topic_id)
        if topic is None:
            continue
        partition = replicas.partitions.get(TopicPartition(topic.name, index))
        if partition is None or partition.topic_id != topic_id or partition.log.is_offline:
            continue
        log = partition.log
        ends[topic_id, index] = LogEnd(log.leader_epochs.latest, log.log_end_offset)
    return ends

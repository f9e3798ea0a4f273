"""Makes what gates look at of what the admin client tells: partitions, the metadata log.

Pure. Not here: asking (`gateway/kafka_cluster.py`; the console asks in its own way).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas_client.admin.values.cluster import QuorumDescription
from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_operator.reconcile.broker.cluster_state import MetadataMembers, PartitionView
from barnabas_protocol.ids import TopicPartition

# A member asks for records twice a second; the brokers, too, take three for the sign of an absence.
_IN_TOUCH_MS: Final = 3000


def metadata_members(quorum: QuorumDescription, wanted: int) -> MetadataMembers:
    """Times are compared with the leader's own one, which is that of its answer."""
    times = {one.replica_id: one.last_caught_up_timestamp_ms for one in quorum.voters}
    now_ms = times.get(quorum.leader_id) or 0
    return MetadataMembers(
        ids=frozenset(times),
        in_touch=frozenset(
            node_id
            for node_id, time_ms in times.items()
            if time_ms is not None and now_ms - time_ms < _IN_TOUCH_MS
        ),
        wanted=wanted,
    )


def partition_views(
    topic: TopicDescription, in_sync_min: int, moves: Mapping[TopicPartition, Reassignment]
) -> list[PartitionView]:
    """The partitions of a topic, by number."""
    return [
        _view(TopicPartition(topic.name, number), partition, in_sync_min, moves)
        for number, partition in sorted(topic.partitions.items())
    ]


def _view(
    topic_partition: TopicPartition,
    partition: PartitionDescription,
    in_sync_min: int,
    moves: Mapping[TopicPartition, Reassignment],
) -> PartitionView:
    move = moves.get(topic_partition)
    return PartitionView(
        topic_partition=topic_partition,
        leader=partition.leader_id,
        replicas=partition.replica_ids,
        in_sync=frozenset(partition.in_sync_replica_ids),
        in_sync_min=in_sync_min,
        eligible=frozenset(partition.eligible_leader_replica_ids or ()),
        leaving=frozenset() if move is None else frozenset(move.removing_replica_ids),
        is_moving=move is not None,
    )

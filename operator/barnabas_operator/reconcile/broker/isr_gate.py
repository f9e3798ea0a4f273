"""Whether a broker may be taken away now: what each of its partitions could afford. Pure.

For every partition with a replica on the broker: one whose factor is not above min.insync.replicas
is ignored, since no wait would help, and is named in a warning, but that the last of its replicas
that is in sync stays while there are others to catch up; with fewer in sync than needed the answer
is no, even where this replica is not among them, for it may be the first to catch up; with just
enough in sync it is no where this replica is among them; else yes. One that nobody leads, although
the only replica in sync, or eligible, is on a broker that takes part, loses nothing: its disk is
not there, and comes with a start at the soonest.

The metadata log has a gate of its own (`members_gate`); `hindrance` asks both.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas_operator.reconcile.broker.cluster_state import ClusterView, PartitionView
from barnabas_operator.reconcile.broker.members_gate import members_hindrance

NAMED_MAX = 5


def blocking(cluster: ClusterView, node_id: int) -> list[PartitionView]:
    """The partitions that would become unavailable, or stay so for longer; empty: go."""
    is_live = node_id in cluster.live_ids
    return [
        one
        for one in cluster.held_by(node_id)
        if not (_can_spare(one, node_id) or (is_live and _is_without_disk(one, node_id)))
    ]


def hindrance(cluster: ClusterView, node_id: int) -> str:
    """Why the broker may not be taken away now, empty if it may."""
    held_back = blocking(cluster, node_id)
    if held_back:
        return f"{named(held_back)} cannot spare it"
    return members_hindrance(cluster, node_id)


def may_go(cluster: ClusterView, node_id: int) -> bool:
    """Whether the broker may be taken away now."""
    return not hindrance(cluster, node_id)


def not_caught_up(cluster: ClusterView, node_id: int) -> list[PartitionView]:
    """The partitions whose replica on the broker is not in sync.

    One that is not led by anybody now counts only where the broker could help it.
    """
    return [
        one
        for one in cluster.held_by(node_id)
        if node_id not in one.in_sync and not one.is_moving and one.leader is not None
    ]


def unguarded(cluster: ClusterView) -> list[PartitionView]:
    """The partitions that any restart of one of their brokers makes unavailable."""
    return [one for one in cluster.partitions if one.is_unguarded]


def named(partitions: Iterable[PartitionView]) -> str:
    """The partitions for people, not more than a few of them."""
    topic_partitions = [
        f"{one.topic_partition.topic}-{one.topic_partition.partition}" for one in partitions
    ]
    more = (
        f" and {len(topic_partitions) - NAMED_MAX} more"
        if len(topic_partitions) > NAMED_MAX
        else ""
    )
    return ", ".join(topic_partitions[:NAMED_MAX]) + more


def _is_without_disk(partition: PartitionView, node_id: int) -> bool:
    # The last one to leave an ISR is eligible; brokers that do not tell who is leave it in sync.
    return partition.leader is None and partition.in_sync | partition.eligible == {node_id}


def _can_spare(partition: PartitionView, node_id: int) -> bool:
    if partition.is_unguarded:
        return not (partition.is_down_to_one and node_id in partition.in_sync)
    count = len(partition.in_sync)
    if count < partition.in_sync_min:
        return False
    return count > partition.in_sync_min or node_id not in partition.in_sync

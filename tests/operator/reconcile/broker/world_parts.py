"""What a `BrokerWorld` is made of: a clock, partitions, and how both sides see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas_operator.reconcile.broker.cluster_state import PartitionView
from barnabas_protocol.ids import TopicPartition
from tests.support.fake_kubernetes_store import Manifest

CATCH_UP_TICKS = 2


# Claims of this class can grow.
STORAGE_CLASS: Manifest = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard"},
    "allowVolumeExpansion": True,
}


@dataclass(kw_only=True)
class Partition:
    topic_partition: TopicPartition
    replicas: list[int]
    in_sync: set[int]
    in_sync_min: int
    target: list[int] | None = None
    behind: dict[int, int] = field(default_factory=dict)
    slow: set[int] = field(default_factory=set)


def is_ready_pod(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def view_of(one: Partition) -> PartitionView:
    leaving = frozenset() if one.target is None else frozenset(one.replicas) - set(one.target)
    return PartitionView(
        topic_partition=one.topic_partition,
        leader=min(one.in_sync, default=None),
        replicas=tuple(one.replicas),
        in_sync=frozenset(one.in_sync),
        in_sync_min=one.in_sync_min,
        leaving=leaving,
        is_moving=one.target is not None,
    )

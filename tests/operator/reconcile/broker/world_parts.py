"""What a `BrokerWorld` is made of: a clock, partitions, and how both sides see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas_operator.reconcile.broker.observed import PartitionView
from barnabas_protocol.ids import TopicPartition
from tests.support.fake_kubernetes_store import Manifest

CATCH_UP_TICKS = 2


@dataclass(kw_only=True)
class Clock:
    """Time passes with the world's ticks only."""

    now_ms: int = 1_800_000_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


@dataclass(kw_only=True)
class Partition:
    place: TopicPartition
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
        place=one.place,
        leader=min(one.in_sync, default=None),
        replicas=tuple(one.replicas),
        in_sync=frozenset(one.in_sync),
        in_sync_min=one.in_sync_min,
        leaving=leaving,
        is_moving=one.target is not None,
    )

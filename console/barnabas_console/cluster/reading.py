"""One reading of all topics, page by page: lists, counts, causes of trouble, who must stay.

Pure: pages come in, nothing is asked. Of topics only what lists show is kept, of partitions only
their placements, in arrays: ten thousand topics take a MiB and a half (CON-174).

Invariants: a broker may go only if the operator's gates let it (CON-110). A partition whose
replicas are all in sync never keeps a broker: either none of its replicas may ever be missed, which
gates ignore, or one can be spared. So `min.insync.replicas` is needed of topics in trouble alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_client.admin.values.partitions import Reassignment
from barnabas_client.admin.values.topics import PartitionDescription, TopicDescription
from barnabas_client.facts.cluster_facts import ClusterTally
from barnabas_client.facts.topic_facts import is_under_replicated
from barnabas_console.cluster.placements import Placements
from barnabas_console.cluster.topic_columns import TopicColumns
from barnabas_operator.reconcile.broker.cluster_state import ClusterView, PartitionView
from barnabas_operator.reconcile.broker.cluster_view import partition_views
from barnabas_operator.reconcile.broker.isr_gate import blocking, named
from barnabas_protocol.ids import TopicPartition

EXAMPLES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Cause:
    """Why partitions are in trouble; those with equal causes are shown together."""

    kind: str  # "offline", "read-only" (below min.insync.replicas) or "under-replicated"
    missing: tuple[int, ...]
    is_moving: bool


@dataclass(slots=True)
class CausedTroubles:
    """The partitions of one cause: how many, and a few of them."""

    count: int = 0
    examples: list[TopicPartition] = field(default_factory=list)

    def add(self, topic_partition: TopicPartition) -> None:
        """One more."""
        self.count += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(topic_partition)


class Reading:
    """What the pages so far say."""

    def __init__(self, moves: Mapping[TopicPartition, Reassignment]) -> None:
        self._moves = moves
        self.tally = ClusterTally()
        self.page_count = 0
        self.causes: dict[Cause, CausedTroubles] = {}
        self.sizes_of_brokers: dict[int, int] = {}
        self.topics = TopicColumns()
        self.placements = Placements()
        self._holding: dict[int, list[PartitionView]] = {}
        self._holding_counts: dict[int, int] = {}

    def add(
        self,
        topics: Iterable[TopicDescription],
        in_sync_min: Mapping[str, int],
        sizes: Mapping[TopicPartition, int],
    ) -> None:
        """Take a page; `in_sync_min` has at least the topics in trouble that exist."""
        self.page_count += 1
        for topic in topics:
            self.tally.add(topic)
            self.placements.add(topic)
            known = [
                sizes[place]
                for number in topic.partitions
                if (place := TopicPartition(topic.name, number)) in sizes
            ]
            self.topics.add(topic, sum(known) if known else None)
            if is_in_trouble(topic):
                self._add_trouble(topic, in_sync_min.get(topic.name, 1))

    def hindrance(self, node_id: int) -> str:
        """Which partitions cannot spare the broker; empty if all can."""
        held = self._holding.get(node_id)
        if not held:
            return ""
        more = self._holding_counts[node_id] - len(held)
        return f"{named(held)}{f' and {more} more' if more else ''} cannot spare it"

    def _add_trouble(self, topic: TopicDescription, in_sync_min: int) -> None:
        for number, partition in topic.partitions.items():
            place = TopicPartition(topic.name, number)
            cause = cause_of(partition, in_sync_min, is_moving=place in self._moves)
            if cause is not None:
                self.causes.setdefault(cause, CausedTroubles()).add(place)
        views = partition_views(topic, in_sync_min, self._moves)
        cluster = ClusterView(partitions=tuple(views))
        for node_id in {node_id for view in views for node_id in view.replicas}:
            held_back = blocking(cluster, node_id)
            if held_back:
                held = self._holding.setdefault(node_id, [])
                held += held_back[: EXAMPLES_MAX - len(held)]
                self._holding_counts[node_id] = self._holding_counts.get(node_id, 0) + len(
                    held_back
                )


def is_in_trouble(topic: TopicDescription) -> bool:
    """Whether a partition has no leader, or a replica that is not in sync."""
    return any(
        partition.leader_id is None or is_under_replicated(partition)
        for partition in topic.partitions.values()
    )


def cause_of(partition: PartitionDescription, in_sync_min: int, *, is_moving: bool) -> Cause | None:
    """Why a partition is in trouble; None where it is not."""
    in_sync = partition.in_sync_replica_ids
    missing = tuple(sorted(set(partition.replica_ids) - set(in_sync)))
    if partition.leader_id is None:
        offline = tuple(sorted(partition.offline_replica_ids)) or missing
        return Cause("offline", offline, is_moving)
    if not missing:
        return None
    needed = min(in_sync_min, len(partition.replica_ids))
    return Cause("read-only" if len(in_sync) < needed else "under-replicated", missing, is_moving)

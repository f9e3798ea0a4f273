"""The subscription of a consumer, and its assigned partitions with their positions.

Not here: how partitions are assigned (`group/`), finding positions (`positions.py`), fetching.

Source: Kafka's consumer (CON-2, CON-3, CON-5).

Invariants: names, pattern and manual assignment exclude each other until `unsubscribe`; a partition
that stays assigned keeps its state; `assignment_version` rises with every change of the set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.consumer.partition_state import PartitionState
from barnabas_client.errors import IllegalStateError, UsageError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_client.consumer.rebalance_listener import RebalanceListener


class SubscriptionKind(Enum):
    """How partitions are assigned."""

    NONE = "none"
    NAMES = "names"
    PATTERN = "pattern"
    MANUAL = "manual"


class SubscriptionState:
    """Owned by one consumer; the only place that knows its partitions."""

    def __init__(self, *, exclude_internal_topics: bool = True) -> None:
        self.kind = SubscriptionKind.NONE
        self.pattern: re.Pattern[str] | None = None
        self.listener: RebalanceListener | None = None
        self.topics: frozenset[str] = frozenset()
        # What all members of the group subscribe to, on the leader; empty elsewhere.
        self.group_topics: frozenset[str] = frozenset()
        self.assignment_version = 0
        self._exclude_internal_topics = exclude_internal_topics
        self._assigned: dict[TopicPartition, PartitionState] = {}
        self.assigned: Mapping[TopicPartition, PartitionState] = MappingProxyType(self._assigned)

    @property
    def is_group_managed(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.kind in (SubscriptionKind.NAMES, SubscriptionKind.PATTERN)

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Every topic whose metadata is needed; for a pattern, all topics are."""
        if self.kind is SubscriptionKind.MANUAL:
            return frozenset(topic for topic, _ in self._assigned)
        return self.topics | self.group_topics

    def subscribe_names(
        self, topics: Iterable[str], listener: RebalanceListener | None = None
    ) -> bool:
        """Replace the topics; partitions stay until the rebalance. Returns whether they are new.

        Raises: UsageError for an invalid name; IllegalStateError after another kind.
        """
        if isinstance(topics, str):
            raise UsageError(f"subscribe takes several topic names: ['{topics}']")
        names = frozenset(topics)
        for name in names:
            check_topic_name(name)
        self._become(SubscriptionKind.NAMES)
        self.listener = listener
        return self._set_topics(names)

    def subscribe_pattern(
        self, pattern: re.Pattern[str], listener: RebalanceListener | None = None
    ) -> None:
        """Replace the pattern; the topics follow with `update_matching`."""
        self._become(SubscriptionKind.PATTERN)
        self.pattern = pattern
        self.listener = listener

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the partitions; those kept keep their positions."""
        wanted = [checked_partition(partition) for partition in partitions]
        self._become(SubscriptionKind.MANUAL)
        self._replace(wanted)

    def unsubscribe(self) -> None:
        """Drop subscription and partitions."""
        self.kind = SubscriptionKind.NONE
        self.pattern = None
        self.listener = None
        self.topics = frozenset()
        self.group_topics = frozenset()
        self._replace(())

    def update_matching(self, cluster: ClusterMetadata) -> bool:
        """Take the topics whose whole name the pattern matches; return whether they changed."""
        if self.kind is not SubscriptionKind.PATTERN or self.pattern is None:
            return False
        found = frozenset(
            name
            for name, topic in cluster.topics.items()
            if topic.partitions
            and not (topic.is_internal and self._exclude_internal_topics)
            and self.pattern.fullmatch(name)
        )
        return self._set_topics(found)

    def set_group_topics(self, topics: Iterable[str]) -> bool:
        """What the group's assignor needs metadata of; returns whether that is more than known."""
        wanted = frozenset(topics)
        is_more = not wanted <= self.metadata_topics
        self.group_topics = wanted
        return is_more

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the partitions; those kept keep position, pause and all that is known.

        Raises: IllegalStateError without a subscription to topics.
        """
        if not self.is_group_managed:
            raise IllegalStateError("no topics are subscribed to")
        self._replace(partitions)

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these any more; their positions are still committed."""
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.is_pending_revocation = True

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition.

        Raises: IllegalStateError if it is not assigned.
        """
        state = self._assigned.get(partition)
        if state is None:
            raise IllegalStateError(
                f"{partition[0]}-{partition[1]} is not assigned to this consumer"
            )
        return state

    def paused(self) -> set[TopicPartition]:
        """The partitions that `pause` named."""
        return {partition for partition, state in self._assigned.items() if state.is_paused}

    def find(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition, None if it is not assigned; each assignment has its own."""
        return self._assigned.get(partition)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions to commit: behind all returned records."""
        return {
            partition: OffsetAndMetadata(state.offset, state.leader_epoch)
            for partition, state in self._assigned.items()
            if state.offset >= 0
        }

    def _become(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise IllegalStateError(
                "names, a pattern and assigned partitions exclude each other:"
                f" call unsubscribe() before going from {self.kind.value} to {kind.value}"
            )
        self.kind = kind

    def _set_topics(self, topics: frozenset[str]) -> bool:
        is_new = topics != self.topics
        self.topics = topics
        return is_new

    def _replace(self, partitions: Iterable[TopicPartition]) -> None:
        known = dict(self._assigned)
        self._assigned.clear()
        for partition in partitions:
            state = known.get(partition) or PartitionState()
            state.is_pending_revocation = False
            self._assigned[partition] = state
        if self._assigned.keys() != known.keys():
            self.assignment_version += 1


def checked_partition(given: object) -> TopicPartition:
    """A partition as a program names it.

    Raises: UsageError if it is not a partition.
    """
    if not isinstance(given, tuple) or len(given) != 2:
        raise UsageError(f"a partition is TopicPartition(topic, number), not {given!r}")
    topic, partition = given
    check_topic_name(topic)
    if not isinstance(partition, int) or partition < 0:
        raise UsageError(f"partition {partition!r} of {topic}: partitions count from 0")
    return TopicPartition(topic, partition)

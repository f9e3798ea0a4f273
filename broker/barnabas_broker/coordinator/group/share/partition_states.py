"""Which partitions of which topics a share group has state of, immutable.

Source: KIP-932, SHR-29; record type 15.

    unknown       -> initializing   a member subscribes to the topic
    initializing  -> initialized    the share coordinator has the state; the partition is assigned
    either        -> deleting       an admin deletes the offsets or the group
    deleting      -> unknown        the share coordinator has forgotten the state

Invariants: a topic that is being deleted is neither of the others; a partition that is initialized
is not initializing, unless it begins anew (AlterShareGroupOffsets).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicState(NamedTuple):
    """A topic's name, and those of its partitions that are in a state."""

    name: str
    partitions: frozenset[int]


TopicStates = Mapping[bytes, TopicState]
_NONE: TopicStates = {}
_NO_PARTITIONS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStates:
    """The partitions of one group by state and topic id; of those being deleted the topic alone."""

    initializing: TopicStates = field(default_factory=lambda: _NONE)
    initialized: TopicStates = field(default_factory=lambda: _NONE)
    deleting: Mapping[bytes, str] = field(default_factory=dict[bytes, str])

    @property
    def is_empty(self) -> bool:
        """Whether the group has no state anywhere, for all that is known."""
        return not (self.initializing or self.initialized or self.deleting)

    @property
    def count(self) -> int:
        """How many partitions there are, about."""
        return sum(
            len(topic.partitions)
            for topics in (self.initializing, self.initialized)
            for topic in topics.values()
        )

    def initialized_of(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic that can be assigned."""
        topic = self.initialized.get(topic_id)
        return _NO_PARTITIONS if topic is None else topic.partitions

    def known_of(self, topic_id: bytes) -> frozenset[int]:
        """Return the partitions of a topic of which there may be state."""
        topic = self.initializing.get(topic_id)
        known = self.initialized_of(topic_id)
        return known if topic is None else known | topic.partitions

    def topic_ids(self) -> set[bytes]:
        """Return all topics of which there may be state."""
        return {*self.initializing, *self.initialized, *self.deleting}

    def with_initializing(self, topics: TopicStates) -> PartitionStates:
        """Return the same with more partitions whose state is being made."""
        return PartitionStates(
            initializing=_united(self.initializing, topics),
            initialized=self.initialized,
            deleting=self.deleting,
        )

    def with_initialized(self, topics: TopicStates) -> PartitionStates:
        """Return the same after the state of partitions has been made."""
        return PartitionStates(
            initializing=_without(self.initializing, topics),
            initialized=_united(self.initialized, topics),
            deleting=self.deleting,
        )

    def with_deleting(self, topics: Mapping[bytes, str]) -> PartitionStates:
        """Return the same with topics whose state is being deleted."""
        return PartitionStates(
            initializing=_without_topics(self.initializing, topics),
            initialized=_without_topics(self.initialized, topics),
            deleting={**self.deleting, **topics},
        )

    def without(self, topic_ids: Collection[bytes]) -> PartitionStates:
        """Return the same without topics: there is no state of them any more."""
        return PartitionStates(
            initializing=_without_topics(self.initializing, topic_ids),
            initialized=_without_topics(self.initialized, topic_ids),
            deleting={key: name for key, name in self.deleting.items() if key not in topic_ids},
        )


def _united(topics: TopicStates, more: TopicStates) -> TopicStates:
    united = dict(topics)
    for topic_id, (name, partitions) in more.items():
        before = united.get(topic_id)
        if before is not None:
            partitions |= before.partitions
        united[topic_id] = TopicState(name, partitions)
    return united


def _without(topics: TopicStates, less: TopicStates) -> TopicStates:
    left = dict(topics)
    for topic_id, gone in less.items():
        before = left.pop(topic_id, None)
        rest = _NO_PARTITIONS if before is None else before.partitions - gone.partitions
        if before is not None and rest:
            left[topic_id] = TopicState(before.name, rest)
    return left


def _without_topics(topics: TopicStates, topic_ids: Iterable[bytes]) -> TopicStates:
    gone = set(topic_ids)
    return {key: topic for key, topic in topics.items() if key not in gone}

"""The state of one consumer group, and what follows from it.

Not here: who changes it (`changes.py`, replay) and why (`heartbeat.py`). Source: KIP-848; CG-1,
CG-2.

    Empty        no members
    Assigning    the group epoch is ahead of the assignment epoch
    Reconciling  some member is not at the assignment epoch, or not stable there
    Stable       all are

Invariants: owners, subscription counts and static ids agree with the members; a member of the
target need not be a member any more only while the log is replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import NOTHING, Assignment
from barnabas_broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES, GroupMemory
from barnabas_broker.network.host_counts import owner_of
from barnabas_protocol.consumer_protocol import PROTOCOL_TYPE

V = TypeVar("V")


class ConsumerGroupState(Enum):
    """The states under the names that clients and tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedPattern(NamedTuple):
    """Which topics a pattern matched: at which metadata offset, and when (wall time)."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerGroup:
    """One group. Created Empty, at epoch 0."""

    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str, owner_host: str = "") -> None:
        self.group_id = group_id
        # From where it was made; empty for one that was loaded.
        self.owner_host = owner_of(owner_host)
        self.memory = GroupMemory(group_id, self.owner_host)
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        # Wall time of the newest target; 0 if it is not known.
        self.assigned_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.static_member_ids: dict[str, str] = {}
        self.is_dead = False
        # Topic id -> partition -> member id: assigned, or being revoked.
        self._owners: dict[bytes, dict[int, str]] = {}
        # How many members subscribe to each topic by name, and to each pattern.
        self.name_counts: Counter[str] = Counter()
        self.pattern_counts: Counter[str] = Counter()
        self._stable_counts: Counter[int] = Counter()
        self._classic_count = 0
        # Of all subscriptions, by name and by pattern.
        self.metadata_bytes = 0
        # Which topics there were when the hash was computed; nothing durable.
        self.topics_seen: object = None
        # Which version of the topics' names its patterns were matched with; nothing durable.
        self.names_matched: int | None = None

    # ---- questions -----------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is."""
        if self.is_dead:
            return ConsumerGroupState.DEAD
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._stable_counts[self.assignment_epoch] < len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def classic_count(self) -> int:
        """How many members speak the classic protocol."""
        return self._classic_count

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member holds the partition."""
        return partition not in self._owners.get(topic_id, ())

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member that has the instance id."""
        member_id = self.static_member_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str) -> Assignment:
        """Return what a member is to have; nothing if it is unknown."""
        return self.targets.get(member_id, NOTHING)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, by name and by pattern."""
        resolved = None if member.pattern is None else self.patterns.get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> Iterator[str]:
        """Return the names of all topics that a member subscribes to, each once."""
        yield from self.name_counts
        told = set(self.name_counts)
        for pattern in self.pattern_counts:
            resolved = self.patterns.get(pattern)
            if resolved is not None:
                new = resolved.topics - told
                told |= new
                yield from new

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic."""
        if topic in self.name_counts:
            return True
        return any(
            topic in self.patterns[pattern].topics
            for pattern in self.pattern_counts
            if pattern in self.patterns
        )

    def preferred_assignor(self) -> str | None:
        """Return the assignor that most members name; of equals the first by name."""
        votes = Counter(
            member.assignor for member in self.members.values() if member.assignor is not None
        )
        if not votes:
            return None
        return max(sorted(votes), key=lambda name: votes[name])

    # ---- changes -------------------------------------------------------------------------------

    def put_member(self, member_id: str, member: ConsumerMember | None) -> ConsumerMember | None:
        """Set or remove a member; returns what it was before."""
        before = _put(self.members, member_id, member)
        if before is not None:
            self._uncount(before)
        if member is not None:
            self._count(member)
        if before is None or member is None or not before.says_the_same_as(member):
            # Its topics may be very many.
            self._recount_metadata(before, member)
        return before

    def put_target(self, member_id: str, target: Assignment | None) -> Assignment | None:
        """Set or remove what a member is to have; returns what it was before."""
        return _put(self.targets, member_id, target)

    def put_pattern(self, pattern: str, resolved: ResolvedPattern | None) -> ResolvedPattern | None:
        """Set or remove what a pattern matches; returns what it was before."""
        return _put(self.patterns, pattern, resolved)

    def _count(self, member: ConsumerMember) -> None:
        member_id = member.member_id
        if member.instance_id is not None:
            self.static_member_ids[member.instance_id] = member_id
        for topic_id, partition in member.held():
            self._owners.setdefault(topic_id, {})[partition] = member_id
        if member.pattern is not None:
            self.pattern_counts[member.pattern] += 1
        if member.state is MemberState.STABLE:
            self._stable_counts[member.member_epoch] += 1
        self._classic_count += member.classic is not None

    def _uncount(self, member: ConsumerMember) -> None:
        member_id = member.member_id
        if (
            member.instance_id is not None
            and self.static_member_ids.get(member.instance_id) == member_id
        ):
            del self.static_member_ids[member.instance_id]
        for topic_id, partition in member.held():
            owners = self._owners.get(topic_id, {})
            if owners.get(partition) == member_id:
                del owners[partition]
                if not owners:
                    del self._owners[topic_id]
        if member.pattern is not None:
            _take_one(self.pattern_counts, member.pattern)
        if member.state is MemberState.STABLE:
            _take_one(self._stable_counts, member.member_epoch)
        self._classic_count -= member.classic is not None

    def _recount_metadata(
        self, before: ConsumerMember | None, after: ConsumerMember | None
    ) -> None:
        if after is not None:
            self.name_counts.update(after.topics)
            self.metadata_bytes += after.metadata_bytes
            self.memory.change(MEMBER_BYTES + after.metadata_bytes)
        if before is not None:
            for topic in before.topics:
                _take_one(self.name_counts, topic)
            self.metadata_bytes -= before.metadata_bytes
            self.memory.change(-MEMBER_BYTES - before.metadata_bytes)


def _put(values: dict[str, V], key: str, value: V | None) -> V | None:
    """Set a value, or remove it; returns what was there."""
    before = values.get(key)
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
    return before


def _take_one(counts: Counter[str] | Counter[int], key: str | int) -> None:
    typed: Counter[str | int] = counts  # type: ignore[assignment]
    typed[key] -= 1
    if typed[key] <= 0:
        del typed[key]

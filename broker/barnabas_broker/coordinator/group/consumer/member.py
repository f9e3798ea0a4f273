"""One member of a consumer group, immutable: what it said about itself, and what it has.

Not here: how it comes to what it has (`reconciliation.py`). Source: KIP-848; formats.md 10, record
types 5 and 8. Invariant: no partition is both assigned and being revoked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from barnabas_broker.coordinator.group.members import Protocols, metadata_size

# What a member epoch may say in a request, and in record type 8 of one that is away.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

# Topic id -> partition -> the member epoch that it was assigned with.
Owned = Mapping[bytes, Mapping[int, int]]

NOTHING_OWNED: Owned = {}


class MemberState(IntEnum):
    """Where a member is on its way to the target, by the number in the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSide:
    """What a member that speaks the classic protocol brings."""

    session_timeout_ms: int
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member that the group knows by its id."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    # From here on: the current assignment.
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=lambda: NOTHING_OWNED)
    revoking: Owned = field(default_factory=lambda: NOTHING_OWNED)

    @property
    def metadata_bytes(self) -> int:
        """How much it says about itself, about."""
        texts = (self.instance_id, self.rack_id, self.assignor, self.pattern)
        size = sum(len(text.encode()) for text in (*self.topics, *texts) if text is not None)
        return size if self.classic is None else size + metadata_size(self.classic.protocols)

    def says_the_same_as(self, other: ConsumerMember) -> bool:
        """Whether both are one member that has said nothing about itself in between."""
        return (
            self.topics is other.topics
            and self.classic is other.classic
            and (self.instance_id, self.rack_id, self.assignor, self.pattern)
            == (other.instance_id, other.rack_id, other.assignor, other.pattern)
        )

    @property
    def is_away(self) -> bool:
        """Whether it is static and has left for a while."""
        return self.member_epoch == STATIC_LEAVE_EPOCH

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has all that the target of that epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def held(self) -> Iterator[tuple[bytes, int]]:
        """Return all partitions that nobody else may have: assigned or being revoked."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition

    def assigned_since(self, topic_id: bytes, partition: int) -> int | None:
        """Return the member epoch with which it got a partition that it holds; None if not."""
        for owned in (self.assigned, self.revoking):
            since = owned.get(topic_id, {}).get(partition)
            if since is not None:
                return since
        return None

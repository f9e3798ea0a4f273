"""The state of one share group, and what follows from it.

Not here: who changes it (`changes.py`, replay) and why (`heartbeat.py`). Source: KIP-932, SHR-28.

    Empty   no members
    Stable  some

Invariants: subscription counts agree with the members; a member of the target need not be a member
any more only while the log is replayed.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import NOTHING, Assignment
from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES, GroupMemory
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates
from barnabas_broker.network.host_counts import owner_of

PROTOCOL_TYPE: Final = "share"


class ShareGroupState(Enum):
    """The states under the names that clients and tools show."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup:
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
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.partitions = PartitionStates()
        self.is_dead = False
        # How many members subscribe to each topic.
        self.name_counts: Counter[str] = Counter()
        # Of all subscriptions.
        self.metadata_bytes = 0
        self.subscription_count = 0
        # Which topics and partitions there were when the hash was computed; nothing durable.
        self.seen: tuple[object, object] = (None, None)
        # Whether state of partitions is to be made or deleted, as far as was seen; and from when on
        # that is tried again after it failed. Nothing durable.
        self.has_work = False
        self.retry_ms = 0

    @property
    def state(self) -> ShareGroupState:
        """Whether it has members."""
        if self.is_dead:
            return ShareGroupState.DEAD
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def target_of(self, member_id: str) -> Assignment:
        """Return what a member is to have; nothing if it is unknown."""
        return self.targets.get(member_id, NOTHING)

    # ---- changes -------------------------------------------------------------------------------

    def put_member(self, member_id: str, member: ShareMember | None) -> ShareMember | None:
        """Set or remove a member; returns what it was before."""
        before = self.members.pop(member_id, None) if member is None else self._set(member)
        if before is not None:
            self.name_counts.subtract(before.topics)
            for topic in before.topics:
                if self.name_counts[topic] <= 0:
                    del self.name_counts[topic]
            self.metadata_bytes -= before.metadata_bytes
            self.memory.change(-MEMBER_BYTES - before.metadata_bytes)
            self.subscription_count -= len(before.topics)
        return before

    def _set(self, member: ShareMember) -> ShareMember | None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.name_counts.update(member.topics)
        self.metadata_bytes += member.metadata_bytes
        self.memory.change(MEMBER_BYTES + member.metadata_bytes)
        self.subscription_count += len(member.topics)
        return before

    def put_target(self, member_id: str, target: Assignment | None) -> Assignment | None:
        """Set or remove what a member is to have; returns what it was before."""
        before = self.targets.pop(member_id, None)
        if target is not None:
            self.targets[member_id] = target
        return before

    def put_partitions(self, partitions: PartitionStates) -> PartitionStates:
        """Set of which partitions there is state; returns what it was before."""
        before = self.partitions
        self.partitions = partitions
        return before

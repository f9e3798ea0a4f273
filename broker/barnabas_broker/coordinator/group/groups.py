"""The groups of one shard by id, with what is needed to undo creations and removals.

Not here: what a group is (`classic.py`) and who removes it (`commits.py`, `shard.py`). Only what
records say is undone: a group that a join made is no business of the log before its first record.

Invariants: a group is taken out when its tombstones are decided, so that whatever comes next finds
what replay would find; rolling back to a sequence number gives back what was taken out since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.group_memory import BrokerGroupMemory, GroupMemory
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.network.host_counts import owner_of
from barnabas_protocol.errors import ErrorCode


class OwnedGroup(Protocol):
    """A group of any kind, as far as it is counted."""

    group_id: str
    owner_host: str
    """The address that it was made from, of IPv6 the network (`owner_of`)."""
    memory: GroupMemory


Group = TypeVar("Group", bound=OwnedGroup)


class GroupQuota:
    """How many groups there are on this broker, over all shards, and how many there may be.

    And how much is remembered of them.
    """

    def __init__(
        self, groups_max: int, groups_per_host_max: int, memory: BrokerGroupMemory
    ) -> None:
        self.memory = memory
        self._groups_max = groups_max
        self._groups_per_host_max = groups_per_host_max
        self._by_host: Counter[str] = Counter()
        self.count = 0

    def has_room(self, host: str) -> bool:
        """Whether a client of that host may make another group."""
        of_owner = self._by_host[owner_of(host)]
        return self.count < self._groups_max and of_owner < self._groups_per_host_max

    def added(self, group: OwnedGroup) -> None:
        """One more group."""
        self.count += 1
        group.memory.count_in(self.memory)
        if group.owner_host:
            self._by_host[group.owner_host] += 1

    def removed(self, group: OwnedGroup) -> None:
        """One group less."""
        self.count -= 1
        group.memory.count_out()
        if group.owner_host:
            self._by_host[group.owner_host] -= 1
            if not self._by_host[group.owner_host]:
                del self._by_host[group.owner_host]


class CountedGroups(dict[str, Group], Generic[Group]):
    """Groups of a newer kind by id: one exists by its first record, and ends with its last."""

    def __init__(self, quota: GroupQuota, journal: UndoJournal) -> None:
        super().__init__()
        self.quota = quota
        self._journal = journal

    def create(self, group: Group) -> Group:
        """Put an Empty group in, whose first record is on its way, and return it."""
        self.put(group)
        self._journal.note(self.drop, group)
        return group

    def take_out(self, group: Group) -> None:
        """Forget a group whose tombstones are on their way."""
        self.drop(group)
        self._journal.note(self.put, group)

    def clear(self) -> None:
        """Forget all groups."""
        for group in list(self.values()):
            self.drop(group)

    def put(self, group: Group) -> None:
        """Put a group in that the log has."""
        self.quota.added(group)
        self[group.group_id] = group

    def drop(self, group: Group) -> None:
        """Take a group out that the log does not have, if it is there."""
        if self.get(group.group_id) is group:
            del self[group.group_id]
            self.quota.removed(group)


class Groups(dict[str, ClassicGroup]):
    """Groups by id; joins put theirs in as into any dictionary."""

    def __init__(self, quota: GroupQuota, journal: UndoJournal) -> None:
        super().__init__()
        self.quota = quota
        self._journal = journal
        # Whether nothing speaks for keeping a group, and what is to be done with one that is back.
        self.is_abandoned: Callable[[ClassicGroup], bool] = lambda group: group.is_empty
        self.given_back: Callable[[ClassicGroup], None] = lambda group: None

    def __setitem__(self, group_id: str, group: ClassicGroup) -> None:
        """Count the group."""
        before = self.get(group_id)
        if before is not None:
            self.quota.removed(before)
        self.quota.added(group)
        super().__setitem__(group_id, group)

    def __delitem__(self, group_id: str) -> None:
        """Count the group no more."""
        self.quota.removed(self[group_id])
        super().__delitem__(group_id)

    def clear(self) -> None:
        """Forget all groups."""
        for group_id in list(self):
            del self[group_id]

    def create(self, group_id: str, wall_ms: int, host: str) -> ClassicGroup:
        """Put an Empty group in, for the offsets of a commit."""
        group = ClassicGroup(group_id, host)
        group.state_changed_ms = wall_ms
        self[group_id] = group
        self._journal.note(self._uncreate, group)
        return group

    def take_out(self, group: ClassicGroup) -> None:
        """Forget an Empty group whose tombstones are on their way."""
        assert group.is_empty
        del self[group.group_id]
        self._journal.note(self._give_back, group)

    def set_aside(self, group: ClassicGroup) -> None:
        """Forget a group, with or without members, that becomes one of another kind."""
        del self[group.group_id]
        self._journal.note(self._give_back, group)

    def put_converted(self, group: ClassicGroup) -> None:
        """Put a group in that was one of another kind."""
        self[group.group_id] = group
        self._journal.note(self.withdraw, group)

    def withdraw(self, group: ClassicGroup) -> None:
        """Take a group out again, as it stays one of another kind; who waits is to try again."""
        if self.get(group.group_id) is group:
            del self[group.group_id]
        group.answer_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # ---- undoing -------------------------------------------------------------------------------

    def _uncreate(self, group: ClassicGroup) -> None:
        """Take a group out again; offsets that came after it are gone already."""
        if self.get(group.group_id) is group and self.is_abandoned(group):
            del self[group.group_id]

    def _give_back(self, group: ClassicGroup) -> None:
        self._put_back(group, self.get(group.group_id))
        self.given_back(group)

    def _put_back(self, group: ClassicGroup, current: ClassicGroup | None) -> None:
        if current is None:
            self[group.group_id] = group
            return
        if current.is_empty:
            # Nobody has joined the new one yet; who was given an id may still do so.
            for member_id in list(current.pending_member_ids):
                current.forget_pending(member_id)
                group.expect(member_id)
            self[group.group_id] = group
            return
        # Those who have joined the new one stay in it.
        group.transition(GroupState.DEAD, group.state_changed_ms)
        if current.state is GroupState.PREPARING_REBALANCE:
            # Its next record follows the generation that the log knows.
            current.generation_id = max(current.generation_id, group.generation_id)

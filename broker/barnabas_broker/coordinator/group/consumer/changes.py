"""Changes of a consumer group together with their records, in a way that can be undone.

Source: formats.md 10 for the order of records in a batch. Invariant: replaying the records makes
the same state (`replay.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment
from barnabas_broker.coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    ResolvedPattern,
)
from barnabas_broker.coordinator.group.consumer.member import ConsumerMember
from barnabas_broker.coordinator.group.consumer.records import (
    ASSIGNMENT_EPOCH_TYPE,
    CURRENT_TYPE,
    GROUP_EPOCH_TYPE,
    MEMBER_TYPE,
    PATTERN_TYPE,
    TARGET_TYPE,
    AssignmentEpochValue,
    GroupEpochValue,
    assignment_epoch_record,
    current_record,
    group_epoch_record,
    member_record,
    pattern_record,
    target_record,
    tombstone,
)
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord, Instant


class GroupChanges:
    """What one command changes of one group."""

    def __init__(self, group: ConsumerGroup, journal: UndoJournal) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        # Ids of the members that are changed, made or removed; the values mean nothing.
        self.touched: dict[str, None] = {}
        # Called when the command has refused nothing and will return its records.
        self.accepted: Callable[[], None] | None = None
        # Called if the log refuses the records, when all is undone.
        self.refused: Callable[[Instant], None] | None = None
        self._journal = journal

    def member(self, member: ConsumerMember) -> None:
        """Take over what a member says about itself."""
        self._put_member(member.member_id, member)
        self.records.append(member_record(self.group.group_id, member))

    def current(self, member: ConsumerMember) -> None:
        """Take over what a member has, and how far it is."""
        self._put_member(member.member_id, member)
        self.records.append(current_record(self.group.group_id, member))

    def remove_member(self, member_id: str) -> None:
        """Forget a member and its target."""
        self._put_target(member_id, None)
        self._put_member(member_id, None)
        group_id = self.group.group_id
        self.records += (
            tombstone(record_type, group_id, member_id)
            for record_type in (CURRENT_TYPE, TARGET_TYPE, MEMBER_TYPE)
        )

    def target(self, member_id: str, target: Assignment) -> None:
        """Set what a member is to have."""
        self._put_target(member_id, target)
        self.records.append(target_record(self.group.group_id, member_id, target))

    def pattern(self, pattern: str, resolved: ResolvedPattern | None) -> None:
        """Set what a pattern matches, or forget it."""
        group = self.group
        self._journal.note(group.put_pattern, pattern, group.put_pattern(pattern, resolved))
        self.records.append(
            tombstone(PATTERN_TYPE, group.group_id, pattern)
            if resolved is None
            else pattern_record(group.group_id, pattern, resolved)
        )

    def group_epoch(self, value: GroupEpochValue) -> None:
        """Set the group epoch and the hash of what is subscribed to."""
        group = self.group
        before = GroupEpochValue(group.group_epoch, group.metadata_hash)
        self._journal.note(_take_back_group_epoch, group, before)
        set_group_epoch(group, value)
        self.records.append(group_epoch_record(group.group_id, value))

    def assignment_epoch(self, value: AssignmentEpochValue) -> None:
        """Set the epoch of the targets."""
        group = self.group
        before = AssignmentEpochValue(group.assignment_epoch, group.assigned_ms)
        self._journal.note(set_assignment_epoch, group, before)
        set_assignment_epoch(group, value)
        self.records.append(assignment_epoch_record(group.group_id, value))

    def topics_seen(self, snapshot: object) -> None:
        """Note which topics the hash was computed of; of an epoch that is undone they were not."""
        group = self.group
        self._journal.note(_set_topics_seen, group, group.topics_seen)
        group.topics_seen = snapshot

    def everything_removed(self) -> None:
        """Write the tombstones of all that the log has of the group; the group itself stays."""
        group = self.group
        group_id = group.group_id
        member_ids = list(group.members)
        target_ids = list(dict.fromkeys((*group.members, *group.targets)))
        self.records += (tombstone(CURRENT_TYPE, group_id, each) for each in member_ids)
        self.records += (tombstone(TARGET_TYPE, group_id, each) for each in target_ids)
        self.records.append(tombstone(ASSIGNMENT_EPOCH_TYPE, group_id))
        self.records += (tombstone(MEMBER_TYPE, group_id, each) for each in member_ids)
        self.records += (tombstone(PATTERN_TYPE, group_id, each) for each in group.patterns)
        self.records.append(tombstone(GROUP_EPOCH_TYPE, group_id))

    def _put_member(self, member_id: str, member: ConsumerMember | None) -> None:
        group = self.group
        self.touched[member_id] = None
        self._journal.note(group.put_member, member_id, group.put_member(member_id, member))

    def _put_target(self, member_id: str, target: Assignment | None) -> None:
        group = self.group
        self._journal.note(group.put_target, member_id, group.put_target(member_id, target))


def set_group_epoch(group: ConsumerGroup, value: GroupEpochValue) -> None:
    """Take over a record of type 3."""
    group.group_epoch, group.metadata_hash = value


def _take_back_group_epoch(group: ConsumerGroup, before: GroupEpochValue) -> None:
    """Undo that, so that the next heartbeat looks again whether topics have changed."""
    set_group_epoch(group, before)
    group.topics_seen = None


def set_assignment_epoch(group: ConsumerGroup, value: AssignmentEpochValue) -> None:
    """Take over a record of type 6."""
    group.assignment_epoch, group.assigned_ms = value


def _set_topics_seen(group: ConsumerGroup, snapshot: object) -> None:
    group.topics_seen = snapshot

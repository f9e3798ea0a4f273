"""Changes of a share group together with their records, in a way that can be undone.

Invariant: replaying the records makes the same state (`share_groups.py`).
"""

from __future__ import annotations

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
)
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates
from barnabas_broker.coordinator.group.share.records import (
    ASSIGNMENT_EPOCH_TYPE,
    CURRENT_TYPE,
    GROUP_EPOCH_TYPE,
    MEMBER_TYPE,
    PARTITIONS_TYPE,
    TARGET_TYPE,
    assignment_epoch_record,
    current_record,
    group_epoch_record,
    member_record,
    partitions_record,
    target_record,
    tombstone,
)
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord


class ShareGroupChanges:
    """What one command changes of one group."""

    def __init__(self, group: ShareGroup, journal: UndoJournal) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self._journal = journal

    def member(self, member: ShareMember) -> None:
        """Take over what a member says about itself."""
        self._put_member(member.member_id, member)
        self.records.append(member_record(self.group.group_id, member))

    def current(self, member: ShareMember) -> None:
        """Take over what a member has, and how far it is."""
        self._put_member(member.member_id, member)
        self.records.append(current_record(self.group.group_id, member))

    def remove_member(self, member_id: str) -> None:
        """Forget a member and its target."""
        self._put_target(member_id, None)
        self._put_member(member_id, None)
        self.records += (
            tombstone(record_type, self.group.group_id, member_id)
            for record_type in (CURRENT_TYPE, TARGET_TYPE, MEMBER_TYPE)
        )

    def target(self, member_id: str, target: Assignment) -> None:
        """Set what a member is to have."""
        self._put_target(member_id, target)
        self.records.append(target_record(self.group.group_id, member_id, target))

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

    def partitions(self, states: PartitionStates) -> None:
        """Set of which partitions there is state."""
        group = self.group
        self._journal.note(group.put_partitions, group.put_partitions(states))
        self.records.append(partitions_record(group.group_id, states))

    def everything_removed(self) -> None:
        """Write the tombstones of all that the log has of an Empty group."""
        group_id = self.group.group_id
        self.records += (tombstone(TARGET_TYPE, group_id, each) for each in self.group.targets)
        self.records += (
            tombstone(record_type, group_id)
            for record_type in (ASSIGNMENT_EPOCH_TYPE, PARTITIONS_TYPE, GROUP_EPOCH_TYPE)
        )

    def _put_member(self, member_id: str, member: ShareMember | None) -> None:
        group = self.group
        self._journal.note(group.put_member, member_id, group.put_member(member_id, member))

    def _put_target(self, member_id: str, target: Assignment | None) -> None:
        group = self.group
        self._journal.note(group.put_target, member_id, group.put_target(member_id, target))


def set_group_epoch(group: ShareGroup, value: GroupEpochValue) -> None:
    """Take over a record of type 11."""
    group.group_epoch, group.metadata_hash = value


def _take_back_group_epoch(group: ShareGroup, before: GroupEpochValue) -> None:
    """Undo that, so that the next heartbeat looks again whether something has changed."""
    set_group_epoch(group, before)
    group.seen = (None, None)


def set_assignment_epoch(group: ShareGroup, value: AssignmentEpochValue) -> None:
    """Take over a record of type 12."""
    group.assignment_epoch, group.assigned_ms = value

"""The share groups of one shard by id, and what the log says of them.

Not here: what a group is (`share_group.py`). Invariants: rolling back gives back what was taken out
and takes out what was created; replaying records makes the state that the commands which wrote
them made.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import NOTHING
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    is_known_version,
)
from barnabas_broker.coordinator.group.groups import CountedGroups
from barnabas_broker.coordinator.group.share import records
from barnabas_broker.coordinator.group.share.changes import (
    ShareGroupChanges,
    set_assignment_epoch,
    set_group_epoch,
)
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_states import PartitionStates
from barnabas_broker.coordinator.group.share.records import ShareCurrentValue, ShareGroupKey
from barnabas_broker.coordinator.group.share.share_group import ShareGroup


class ShareGroups(CountedGroups[ShareGroup]):
    """Groups by id."""

    def changes(self, group: ShareGroup) -> ShareGroupChanges:
        """Return what changes the group and keeps the records of that."""
        return ShareGroupChanges(group, self._journal)

    # ---- the log -------------------------------------------------------------------------------

    def replay(self, key: ShareGroupKey, value: bytes | None) -> bool:
        """Take over a record; returns false if its version is not known. Raises: ParseError."""
        group = self.get(key.group_id)
        if value is None:
            if group is not None:
                self._remove(group, key)
            return True
        if not is_known_version(value):
            return False
        if group is None:
            group = ShareGroup(key.group_id)
            self.put(group)
        self._set(group, key, value)
        return True

    def _set(self, group: ShareGroup, key: ShareGroupKey, value: bytes) -> None:
        match key.record_type:
            case records.MEMBER_TYPE:
                member = records.read_member(key.name, value)
                before = group.members.get(key.name)
                if before is not None:
                    member = replace(
                        member,
                        member_epoch=before.member_epoch,
                        previous_member_epoch=before.previous_member_epoch,
                        assigned=before.assigned,
                    )
                group.put_member(key.name, member)
            case records.GROUP_EPOCH_TYPE:
                set_group_epoch(group, records.read_group_epoch(value))
            case records.ASSIGNMENT_EPOCH_TYPE:
                set_assignment_epoch(group, records.read_assignment_epoch(value))
            case records.TARGET_TYPE:
                group.put_target(key.name, records.read_target(value))
            case records.CURRENT_TYPE:
                current = records.read_current(value)
                before = group.members.get(key.name) or ShareMember(member_id=key.name)
                group.put_member(key.name, replace(before, **current._asdict()))
            case records.PARTITIONS_TYPE:
                group.put_partitions(records.read_partitions(value))

    def _remove(self, group: ShareGroup, key: ShareGroupKey) -> None:
        match key.record_type:
            case records.MEMBER_TYPE:
                group.put_member(key.name, None)
            case records.GROUP_EPOCH_TYPE:
                self.drop(group)
            case records.ASSIGNMENT_EPOCH_TYPE:
                set_assignment_epoch(group, AssignmentEpochValue(0, 0))
            case records.TARGET_TYPE:
                group.put_target(key.name, None)
            case records.CURRENT_TYPE:
                before = group.members.get(key.name)
                if before is not None:
                    nothing = ShareCurrentValue(0, 0, NOTHING)
                    group.put_member(key.name, replace(before, **nothing._asdict()))
            case records.PARTITIONS_TYPE:
                group.put_partitions(PartitionStates())

    def drop_remains(self) -> None:
        """Forget what the end of the log leaves of a group that was removed."""
        for group in list(self.values()):
            if group.group_epoch == 0 and not group.members:
                self.drop(group)

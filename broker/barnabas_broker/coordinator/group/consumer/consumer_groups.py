"""The consumer groups of one shard by id, and what the log says of them.

Not here: what a group is (`consumer_group.py`). Invariants: rolling back gives back what was taken
out and takes out what was created; replaying records makes the state that the commands which wrote
them made.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas_broker.coordinator.group.consumer import records
from barnabas_broker.coordinator.group.consumer.changes import (
    GroupChanges,
    set_assignment_epoch,
    set_group_epoch,
)
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.member import (
    LEAVE_EPOCH,
    ConsumerMember,
)
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    ConsumerGroupKey,
)
from barnabas_broker.coordinator.group.groups import CountedGroups


class ConsumerGroups(CountedGroups[ConsumerGroup]):
    """Groups by id."""

    def changes(self, group: ConsumerGroup) -> GroupChanges:
        """Return what changes the group and keeps the records of that."""
        return GroupChanges(group, self._journal)

    # ---- the log -------------------------------------------------------------------------------

    def replay(self, key: ConsumerGroupKey, value: bytes | None) -> bool:
        """Take over a record; returns false if its version is not known. Raises: ParseError."""
        if value is None:
            group = self.get(key.group_id)
            if group is not None:
                self._remove(group, key)
            return True
        if not records.is_known_version(value):
            return False
        if key.record_type == records.PARTITION_METADATA_TYPE:
            # Kafka 4.0 wrote it; the hash of the group's record is there for it since.
            return True
        group = self.get(key.group_id)
        if group is None:
            group = ConsumerGroup(key.group_id)
            self.put(group)
        self._set(group, key, value)
        return True

    def _set(self, group: ConsumerGroup, key: ConsumerGroupKey, value: bytes) -> None:
        match key.record_type:
            case records.GROUP_EPOCH_TYPE:
                set_group_epoch(group, records.read_group_epoch(value))
            case records.MEMBER_TYPE:
                member = records.read_member(key.name, value)
                before = group.members.get(key.name)
                if before is not None:
                    member = _with_current(member, before)
                group.put_member(key.name, member)
            case records.ASSIGNMENT_EPOCH_TYPE:
                set_assignment_epoch(group, records.read_assignment_epoch(value))
            case records.TARGET_TYPE:
                group.put_target(key.name, records.read_target(value))
            case records.CURRENT_TYPE:
                current = records.read_current(value)
                before = group.members.get(key.name) or ConsumerMember(member_id=key.name)
                group.put_member(key.name, replace(before, **current._asdict()))
            case records.PATTERN_TYPE:
                group.put_pattern(key.name, records.read_pattern(value))

    def _remove(self, group: ConsumerGroup, key: ConsumerGroupKey) -> None:
        match key.record_type:
            case records.GROUP_EPOCH_TYPE:
                self.drop(group)
            case records.MEMBER_TYPE:
                group.put_member(key.name, None)
            case records.ASSIGNMENT_EPOCH_TYPE:
                set_assignment_epoch(group, AssignmentEpochValue(0, 0))
            case records.TARGET_TYPE:
                group.put_target(key.name, None)
            case records.CURRENT_TYPE:
                before = group.members.get(key.name)
                if before is not None:
                    nothing = ConsumerMember(member_id=key.name, member_epoch=LEAVE_EPOCH)
                    group.put_member(key.name, _with_current(before, nothing))
            case records.PATTERN_TYPE:
                group.put_pattern(key.name, None)

    def drop_remains(self) -> None:
        """Forget what the end of the log leaves of a group that was removed."""
        for group in list(self.values()):
            if group.group_epoch == 0 and not group.members:
                self.drop(group)


def _with_current(member: ConsumerMember, current: ConsumerMember) -> ConsumerMember:
    return replace(
        member,
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned=current.assigned,
        revoking=current.revoking,
    )

"""What heartbeats and sessions of share groups have in common: epochs, targets, and leaving.

Not here: what a heartbeat does (`heartbeat.py`). Source: CG-2, SHR-28.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from barnabas_broker.config.share_group_configs import ShareGroupConfigs, ShareGroupSettings
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
)
from barnabas_broker.coordinator.group.member_sessions import MemberSessions
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.share.changes import ShareGroupChanges
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_work import PartitionCommands
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.share.share_groups import ShareGroups
from barnabas_broker.coordinator.group.share.targets import compute_targets, metadata_hash
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.shard import Instant, Result, TimerAction
from barnabas_broker.coordinator.runtime.timers import ShardTimers

WAITING_INTERVAL_MS: Final = 500
"""Between heartbeats of a member whose partitions are being initialized."""


class ShareMembership:
    """The steps that all requests to the share groups of a shard are made of."""

    def __init__(
        self,
        groups: ShareGroups,
        partitions: PartitionCommands,
        timers: ShardTimers[TimerAction],
        settings: ShareGroupSettings,
        configs: ShareGroupConfigs,
        metrics: GroupMetrics,
        topics: Topics,
    ) -> None:
        self.groups = groups
        self.settings = settings
        self.configs = configs
        self.metrics = metrics
        self._partitions = partitions
        self._topics = topics
        self._sessions = MemberSessions("share", timers, metrics, self._fence_one)

    # ---- epochs and targets --------------------------------------------------------------------

    def refresh_epoch(self, changes: ShareGroupChanges, *, is_due: bool) -> None:
        """Raise the group epoch if that is due, or if what can be assigned has changed."""
        group = changes.group
        seen = self._topics.snapshot(), group.partitions
        if not is_due and all(new is old for new, old in zip(seen, group.seen, strict=True)):
            return
        value = metadata_hash(group, self._topics)
        if is_due or value != group.metadata_hash:
            changes.group_epoch(GroupEpochValue(group.group_epoch + 1, value))
            self.metrics.started_rebalance_count += 1
        group.has_work = self._partitions.has_work(group)
        group.seen = seen

    def update_targets(self, changes: ShareGroupChanges, now: Instant) -> None:
        """Compute targets for the group epoch, unless the last ones are new (KIP-1263)."""
        group = changes.group
        if group.group_epoch <= group.assignment_epoch:
            return
        age_ms = now.wall_ms - group.assigned_ms
        if group.assignment_epoch and 0 <= age_ms < self.configs.assignment_interval_ms(
            group.group_id
        ):
            return
        for member_id, target in compute_targets(group, self._topics).items():
            if group.targets.get(member_id) != target:
                changes.target(member_id, target)
        changes.assignment_epoch(AssignmentEpochValue(group.group_epoch, now.wall_ms))
        self.metrics.completed_rebalance_count += 1

    def reconcile(self, changes: ShareGroupChanges, member: ShareMember) -> ShareMember:
        """Give a member its target: nobody has to let go anything for that."""
        group = changes.group
        if member.member_epoch == group.assignment_epoch:
            return member
        updated = replace(
            member,
            member_epoch=group.assignment_epoch,
            # The response that tells the new epoch may be lost: then the member comes with this.
            previous_member_epoch=member.member_epoch,
            assigned=group.target_of(member.member_id),
        )
        changes.current(updated)
        return updated

    def heartbeat_interval_ms(self, group: ShareGroup, member: ShareMember, now: Instant) -> int:
        """Return when the member is to come again: soon, where it waits for what it will have.

        Its partitions are ready some milliseconds after it has joined a new group, and come with a
        heartbeat. One that waits for what failed, or for what does not fit in, comes as usual.
        """
        interval_ms = self.configs.heartbeat_interval_ms(group.group_id)
        if member.assigned:
            return interval_ms
        wait_ms = interval_ms
        if group.group_epoch > group.assignment_epoch:
            age_ms = now.wall_ms - group.assigned_ms
            wait_ms = self.configs.assignment_interval_ms(group.group_id) - age_ms
        elif self._partitions.is_initializing(group, now):
            wait_ms = WAITING_INTERVAL_MS
        return min(max(wait_ms, WAITING_INTERVAL_MS), interval_ms)

    # ---- sessions and leaving ------------------------------------------------------------------

    def touch(self, group: ShareGroup, member: ShareMember, now: Instant) -> None:
        """Count a request of the member as a sign of life."""
        timeout_ms = self.configs.session_timeout_ms(group.group_id)
        self._sessions.touch(group.group_id, member.member_id, timeout_ms, now)

    def start_all(self, group: ShareGroup, now: Instant) -> None:
        """Start the sessions of a group that was loaded."""
        timeout_ms = self.configs.session_timeout_ms(group.group_id)
        for member_id in group.members:
            self._sessions.start(group.group_id, member_id, timeout_ms, now)

    def fence(self, group: ShareGroup, member: ShareMember) -> Result[None]:
        """Take a member out."""
        changes = self.groups.changes(group)
        changes.remove_member(member.member_id)
        self.refresh_epoch(changes, is_due=True)
        return Result(reply=None, records=changes.records)

    def _fence_one(self, group_id: str, member_id: str, now: Instant) -> Result[None] | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return None if group is None or member is None else self.fence(group, member)

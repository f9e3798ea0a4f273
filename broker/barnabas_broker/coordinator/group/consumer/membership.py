"""What heartbeats, classic requests and timers of consumer groups have in common.

Epochs, targets, reconciliation, and how members drop out. Not here: what a single request does
(`heartbeat.py`, `classic_requests.py`). Source: CG-1 to CG-5.

Timers of a group, by key: a session per member (`member_sessions.py`); a rebalance timer per member
that is to let partitions go; of a member of the classic protocol, that it is to join or sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from barnabas_broker.coordinator.group.consumer.changes import GroupChanges
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.consumer_groups import ConsumerGroups
from barnabas_broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from barnabas_broker.coordinator.group.consumer.reconciliation import Reported, reconcile
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
)
from barnabas_broker.coordinator.group.consumer.settings import (
    ConsumerGroupSettings,
    GroupConfigs,
)
from barnabas_broker.coordinator.group.consumer.targets import (
    compute_targets,
    subscription_hash,
    topic_ids_of,
)
from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES
from barnabas_broker.coordinator.group.member_sessions import MemberSessions
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_broker.coordinator.runtime.shard import (
    AppendHook,
    Instant,
    Result,
    TimerAction,
    no_change,
)
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_protocol.errors import ErrorCode, KafkaError

# Turns the group into a classic one as those members leave; None if it stays as it is.
Downgrade = Callable[[ConsumerGroup, Sequence[ConsumerMember], Instant], Result[None] | None]


def _never(group: ConsumerGroup, leaving: Sequence[ConsumerMember], now: Instant) -> None:
    return None


class Membership:
    """The steps that all requests to the consumer groups of a shard are made of."""

    def __init__(
        self,
        groups: ConsumerGroups,
        timers: ShardTimers[TimerAction],
        settings: ConsumerGroupSettings,
        configs: GroupConfigs,
        metrics: GroupMetrics,
        topics: Topics,
    ) -> None:
        self.groups = groups
        self.settings = settings
        self.configs = configs
        self.metrics = metrics
        self.topics = topics
        self.downgrade: Downgrade = _never
        self._timers = timers
        self._sessions = MemberSessions("consumer", timers, metrics, self._fence_one)

    def check_metadata(self, group: ConsumerGroup, known: ConsumerMember | None, size: int) -> None:
        """Refuse a member that says more about itself than it did, and too much.

        Raises: KafkaError 81.
        """
        known_size = 0 if known is None else known.metadata_bytes
        more = size - known_size
        if more > 0 and (
            size > self.settings.member_metadata_bytes_max
            or group.metadata_bytes + more > self.settings.group_metadata_bytes_max
        ):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if known is None:
            more += MEMBER_BYTES
        if more > 0 and not self.groups.quota.memory.has_room(group.owner_host, more):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def check_topics(
        self, group: ConsumerGroup, known: Collection[str], topics: Collection[str]
    ) -> None:
        """Refuse a member that subscribes to more names than it did, and too many.

        Raises: KafkaError 81.
        """
        count = len(topics)
        if count <= len(known):
            return
        group_topics_max = self.settings.group_topics_max
        is_too_much = count > self.settings.member_topics_max
        if not is_too_much and len(group.name_counts) + count > group_topics_max:
            new = sum(topic not in group.name_counts for topic in topics)
            is_too_much = new > 0 and len(group.name_counts) + new > group_topics_max
        if is_too_much:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "The member names too many topics.")

    # ---- epochs and targets --------------------------------------------------------------------

    def refresh_epoch(self, changes: GroupChanges, *, is_due: bool) -> None:
        """Raise the group epoch if that is due, or if the subscribed topics have changed."""
        group = changes.group
        snapshot = self.topics.snapshot()
        if not is_due and group.topics_seen is snapshot:
            return
        value = subscription_hash(group.subscribed_topics(), self.topics)
        if is_due or value != group.metadata_hash:
            changes.group_epoch(GroupEpochValue(group.group_epoch + 1, value))
            self.metrics.started_rebalance_count += 1
        changes.topics_seen(snapshot)

    def are_targets_due(self, group: ConsumerGroup, now: Instant) -> bool:
        """Whether targets are to be computed: not while the last ones are new (KIP-1263)."""
        if group.group_epoch <= group.assignment_epoch:
            return False
        age_ms = now.wall_ms - group.assigned_ms
        interval_ms = self.configs.assignment_interval_ms(group.group_id)
        return group.assignment_epoch == 0 or not 0 <= age_ms < interval_ms

    def update_targets(self, changes: GroupChanges, now: Instant) -> None:
        """Compute targets for the group epoch if they are due."""
        group = changes.group
        if not self.are_targets_due(group, now):
            return
        assignor = group.preferred_assignor()
        if assignor not in self.settings.assignors:
            # None has been named, or one that this broker was told not to offer any more.
            assignor = self.settings.assignors[0]
        targets = compute_targets(group, assignor, self.topics)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                changes.target(member_id, target)
        changes.assignment_epoch(AssignmentEpochValue(group.group_epoch, now.wall_ms))
        self.metrics.completed_rebalance_count += 1

    def reconcile(
        self, changes: GroupChanges, member: ConsumerMember, reported: Reported, now: Instant
    ) -> ConsumerMember:
        """Bring a member one step nearer to its target. Raises: KafkaError 110."""
        group = changes.group
        subscribed = None
        if group.group_epoch > group.assignment_epoch:
            subscribed = topic_ids_of(group.topics_of(member), self.topics)
        elif member.is_reconciled_to(group.assignment_epoch):
            return member
        updated = reconcile(
            member,
            group.assignment_epoch,
            group.target_of(member.member_id),
            group.is_free,
            reported,
            subscribed,
        )
        if updated is not member:
            changes.current(updated)
            if updated.state is MemberState.UNREVOKED_PARTITIONS and updated.classic is None:
                self.start_rebalance_timer(group, updated, now)
        return updated

    # ---- timers --------------------------------------------------------------------------------

    def touch(self, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
        """Count a request of the member as a sign of life."""
        timeout_ms = self._session_timeout_ms(group, member)
        self._sessions.touch(group.group_id, member.member_id, timeout_ms, now)

    def start_all(self, group: ConsumerGroup, now: Instant) -> None:
        """Start the timers of a group that was loaded, or that is back."""
        for member in group.members.values():
            timeout_ms = self._session_timeout_ms(group, member)
            self._sessions.start(group.group_id, member.member_id, timeout_ms, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                self.start_rebalance_timer(group, member, now)

    def if_refused(self, changes: GroupChanges) -> AppendHook | None:
        """Return what is to be done if the log refuses the changes, when they are undone."""
        if not changes.records:
            return None

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if error is not None:
                if changes.refused is not None:
                    changes.refused(then)
                self._ensure_timers(changes, then)
            return no_change()

        return on_append

    def _ensure_timers(self, changes: GroupChanges, now: Instant) -> None:
        """Start the timers that fired without effect while members were not what they are again."""
        group = self.groups.get(changes.group.group_id)
        if group is None:
            return
        for member_id in changes.touched:
            member = group.members.get(member_id)
            if member is None:
                continue
            timeout_ms = self._session_timeout_ms(group, member)
            self._sessions.ensure(group.group_id, member_id, timeout_ms, now)
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                self.start_rebalance_timer(group, member, now, if_absent=True)

    def start_rebalance_timer(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        now: Instant,
        *,
        if_absent: bool = False,
    ) -> None:
        """Remove the member if it has not let its partitions go when its time is over."""

        def is_late(current: ConsumerMember) -> bool:
            return (
                current.state is MemberState.UNREVOKED_PARTITIONS
                and current.member_epoch == member.member_epoch
            )

        self.expire_unless("rebalance", group, member, is_late, now, if_absent=if_absent)

    def expire_unless(
        self,
        kind: str,
        group: ConsumerGroup,
        member: ConsumerMember,
        is_late: Callable[[ConsumerMember], bool],
        now: Instant,
        *,
        if_absent: bool = False,
    ) -> None:
        """Remove the member if it is still late when its rebalance timeout is over."""
        group_id, member_id = group.group_id, member.member_id
        key = ("consumer-" + kind, group_id, member_id)
        if if_absent and key in self._timers:
            return

        def fire(fired: Instant) -> Result[None]:
            current = self._find(group_id, member_id)
            if current is None or not is_late(current[1]):
                return no_change()
            return self._sessions.expire(group_id, member_id, fired)

        self._timers.schedule(key, now.monotonic_ms + member.rebalance_timeout_ms, fire)

    def cancel(self, kind: str, group: ConsumerGroup, member_id: str) -> None:
        """Forget such a timer of a member: what was awaited has come."""
        self._timers.cancel(("consumer-" + kind, group.group_id, member_id))

    def _session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.configs.session_timeout_ms(group.group_id)

    def _find(self, group_id: str, member_id: str) -> tuple[ConsumerGroup, ConsumerMember] | None:
        group = self.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return None if group is None or member is None else (group, member)

    def _fence_one(self, group_id: str, member_id: str, now: Instant) -> Result[None] | None:
        found = self._find(group_id, member_id)
        return None if found is None else self.fence(found[0], [found[1]], now)

    # ---- leaving -------------------------------------------------------------------------------

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], now: Instant
    ) -> Result[None]:
        """Take members out; their partitions are free at once."""
        downgraded = self.downgrade(group, members, now)
        if downgraded is not None:
            return downgraded
        changes = self.groups.changes(group)
        for member in members:
            changes.remove_member(member.member_id)
            self.forget_pattern(changes, member.pattern)
        self.refresh_epoch(changes, is_due=True)
        return Result(reply=None, records=changes.records, on_append=self.if_refused(changes))

    def forget_pattern(self, changes: GroupChanges, pattern: str | None) -> None:
        """Forget what a pattern matches if nobody subscribes to it any more."""
        group = changes.group
        if (
            pattern is not None
            and pattern not in group.pattern_counts
            and pattern in group.patterns
        ):
            changes.pattern(pattern, None)

"""The group shard: all groups and offsets of one partition of `__consumer_offsets`.

It puts the parts together, replays the log, and answers the questions of admins. Pure: time comes
as an argument, randomness from `env`, timers are data. Source: OFS-2 to OFS-4, OFS-9, GRP-20,
GRP-21; architecture, "Coordinators".

Invariant: after `loaded`, every group is Stable or Empty, and every group with offsets exists.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.commits import OffsetCommands
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.groups import GroupQuota, Groups
from barnabas_broker.coordinator.group.join import Join, Joiner
from barnabas_broker.coordinator.group.members import JoinReply
from barnabas_broker.coordinator.group.metrics import GroupMetrics
from barnabas_broker.coordinator.group.offsets import OffsetStore
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.records import (
    CommittedOffset,
    GroupKey,
    read_group,
    read_key,
    read_offset,
)
from barnabas_broker.coordinator.group.settings import GroupSettings
from barnabas_broker.coordinator.group.sync import Syncer
from barnabas_broker.coordinator.group.topics import AnyTopics, Topics, bound_id, is_of
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord, Instant, Result
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas_protocol.messages.join_group import JoinGroupRequest
from barnabas_protocol.messages.list_groups import ListedGroup
from barnabas_protocol.records.record import Record

logger = logging.getLogger(__name__)

CLASSIC_TYPE = "classic"
_EXPIRY_KEY = ("expiry",)
# How often the limit of groups may ask for idle ones to go.
EXPIRE_SOON_MS = 10_000


class GroupShard:
    """The state machine of one partition."""

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        random: Random,
        metrics: GroupMetrics,
        topics: Topics | None = None,
        quota: GroupQuota | None = None,
    ) -> None:
        self.partition = partition
        self.settings = settings
        self.metrics = metrics
        self.timers = ShardTimers()
        self.groups = Groups(quota or GroupQuota(settings.groups_max, settings.groups_per_host_max))
        self.offsets = OffsetStore()
        self._topics: Topics = topics or AnyTopics()
        self._expired_soon_ms = -EXPIRE_SOON_MS
        self._rebalancer = Rebalancer(settings, self.timers, metrics, self.groups)
        self._joiner = Joiner(self._rebalancer, self.groups, random)
        self.members = Syncer(self._rebalancer, self.groups)
        self.commits = OffsetCommands(self._rebalancer, self.groups, self.offsets, self._topics)

    def join(
        self, request: JoinGroupRequest, context: RequestContext, now: Instant, reply: JoinReply
    ) -> Result[None]:
        """Take a JoinGroup; the answer goes to `reply`, at once or when the join phase ends."""
        return self._joiner.join(Join(request, context, now, reply))

    # ---- the log -------------------------------------------------------------------------------

    def replay(self, record: Record, producer_id: int) -> None:
        """Take over a record; what cannot be read is skipped, counted and logged."""
        try:
            self._replay(record, producer_id)
        except ParseError as error:
            self._skip(record, str(error))

    def _replay(self, record: Record, producer_id: int) -> None:
        key = None if record.key is None else read_key(record.key)
        if key is None:
            self._skip(record, "unknown key type")
        elif isinstance(key, GroupKey):
            if record.value is None:
                if key.group_id in self.groups:
                    del self.groups[key.group_id]
                return
            group = read_group(key.group_id, record.value)
            if group is None:
                self._skip(record, "unknown value version")
            else:
                self.groups[key.group_id] = group
        elif record.value is None:
            self.offsets.remove(key)
        else:
            committed = read_offset(record.value)
            if committed is None:
                self._skip(record, "unknown value version")
                return
            if committed.topic_id == ZERO_UUID:
                topic_id = bound_id(self._topics.topic_id(key.topic))
                committed = committed._replace(topic_id=topic_id)
            if producer_id >= 0:
                self.offsets.put_pending(producer_id, key, committed)
            else:
                self.offsets.put(key, committed)

    def _skip(self, record: Record, reason: str) -> None:
        self.metrics.skipped_record_count += 1
        logger.warning(
            "__consumer_offsets-%d: record %d skipped: %s", self.partition, record.offset, reason
        )

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """Take over a marker."""
        self.offsets.end_transaction(producer_id, is_committed)

    def loaded(self, now: Instant) -> Result[None]:
        """Start with the replayed state: every member gets a fresh session (OFS-3)."""
        for group_id in set(self.offsets.group_ids()):
            if group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id)
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancer.start_session(
                    group, member.member_id, member.session_timeout_ms, now
                )
            if len(group.members) > self.settings.group_size_max:
                self._rebalancer.prepare(group, now)
        self.offsets.start_journal()
        self._rebalancer.expire_idle = self._expire_soon
        self._schedule_expiry(now, self.settings.expiry_interval_ms, [])
        return Result(reply=None)

    def begin(self, sequence: int) -> None:
        """Count what changes from now on to this command."""
        self.offsets.begin(sequence)
        self.groups.begin(sequence)

    def committed(self, sequence: int) -> None:
        """Forget how to undo up to this command."""
        self.offsets.committed(sequence)
        self.groups.committed(sequence)

    def roll_back(self, sequence: int) -> None:
        """Undo offsets, creations and removals of this command and later ones.

        What it changed within a group is undone by its hook.
        """
        self.offsets.roll_back(sequence)
        for group in self.groups.roll_back(sequence, self.commits.is_abandoned):
            self._rebalancer.forget_expired(group)

    def close(self, code: ErrorCode) -> None:
        """Answer everything parked and let all groups go (OFS-4)."""
        self.timers.clear()
        for group in self.groups.values():
            group.answer_all(code)
            group.transition(GroupState.DEAD, group.state_changed_ms)
        self.groups.clear()

    # ---- expiry --------------------------------------------------------------------------------

    def _schedule_expiry(self, now: Instant, delay_ms: int, rest: list[str]) -> None:
        self.timers.schedule(
            _EXPIRY_KEY, now.monotonic_ms + delay_ms, partial(self._expire, rest=rest)
        )

    def _expire_soon(self, now: Instant) -> None:
        """Look for idle groups at once, as there is no room for another; not all the time."""
        if now.monotonic_ms - self._expired_soon_ms >= EXPIRE_SOON_MS:
            self._expired_soon_ms = now.monotonic_ms
            self._schedule_expiry(now, 0, [])

    def _expire(self, now: Instant, rest: list[str]) -> Result[None]:
        """Expire offsets group by group; a long run is cut into steps (OFS-8, OFS-9)."""
        group_ids = rest or list(self.groups)
        records: list[CoordinatorRecord] = []
        taken_out: list[ClassicGroup] = []
        while group_ids and len(records) < self.settings.expiry_step_tombstones_max:
            group = self.groups.get(group_ids.pop())
            if group is None:
                continue
            records += self.commits.expire(group, now)
            if self.groups.get(group.group_id) is not group:
                taken_out.append(group)
        delay_ms = 1 if group_ids else self.settings.expiry_interval_ms
        self._schedule_expiry(now, delay_ms, group_ids)
        if not records:
            # The log has nothing of them; the undoing of an earlier command may still want them.
            self.metrics.deleted_group_count += len(taken_out)
            return Result(reply=None)

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if error is None:
                self.commits.bury(taken_out, then)
            else:
                self.metrics.append_failure_count += 1
            return Result(reply=None)

        return Result(reply=None, records=records, on_append=on_append, is_atomic=False)

    def current_offsets(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Return group, topic, partition and offset of all that are of the topics of today."""
        for group_id, topic, partition, committed in self.offsets.all_offsets():
            if is_of(committed.topic_id, self._topics.topic_id(topic)):
                yield group_id, topic, partition, committed

    # ---- questions -----------------------------------------------------------------------------

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """Return the groups in these states and of these types, in lower case; none means all."""
        if types and CLASSIC_TYPE not in types:
            return []
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_TYPE,
            )
            for group in self.groups.values()
            if not states or group.state.value.lower() in states
        ]

    def describe(self, group_id: str) -> DescribedGroup | None:
        """Return the group with its members; None if it is unknown.

        Metadata and assignments are shown only while Stable: before, they are not in force.
        """
        group = self.groups.get(group_id)
        if group is None:
            return None
        is_stable = group.state is GroupState.STABLE
        protocol_name = (group.protocol_name or "") if is_stable else ""
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol_name,
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def count_by_state(self) -> Counter[GroupState]:
        """Return how many groups are in each state."""
        return Counter(group.state for group in self.groups.values())

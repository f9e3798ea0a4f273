"""The group shard: all groups and offsets of one partition of `__consumer_offsets`.

It puts the parts together, replays the log, and describes groups to admins. Pure: time comes
as an argument, randomness from `env`, timers are data. Source: OFS-2 to OFS-4, OFS-9, GRP-20,
GRP-21; architecture, "Coordinators".

Invariant: after `loaded`, every group is Stable or Empty, and every group with offsets exists.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain

from barnabas_broker.config.share_group_configs import ShareGroupConfigs
from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.commits import OffsetCommands
from barnabas_broker.coordinator.group.consumer.changes import GroupChanges
from barnabas_broker.coordinator.group.consumer.classic_requests import ClassicRequests
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.consumer_groups import ConsumerGroups
from barnabas_broker.coordinator.group.consumer.conversion import Conversions
from barnabas_broker.coordinator.group.consumer.descriptions import describe, unknown_group
from barnabas_broker.coordinator.group.consumer.heartbeat import ConsumerHeartbeats
from barnabas_broker.coordinator.group.consumer.membership import Membership
from barnabas_broker.coordinator.group.consumer.pattern_refresh import (
    NoResolver,
    PatternRefresh,
    PatternResolver,
)
from barnabas_broker.coordinator.group.consumer.records import ConsumerGroupKey
from barnabas_broker.coordinator.group.consumer.settings import GroupConfigs
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.groups import GroupQuota, Groups
from barnabas_broker.coordinator.group.join import Join, Joiner
from barnabas_broker.coordinator.group.members import JoinReply, SyncReply
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
from barnabas_broker.coordinator.group.share.descriptions import describe as describe_share_group
from barnabas_broker.coordinator.group.share.descriptions import (
    unknown_group as unknown_share_group,
)
from barnabas_broker.coordinator.group.share.heartbeat import ShareHeartbeats
from barnabas_broker.coordinator.group.share.membership import ShareMembership
from barnabas_broker.coordinator.group.share.partition_work import PartitionCommands
from barnabas_broker.coordinator.group.share.records import ShareGroupKey
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.share.share_groups import ShareGroups
from barnabas_broker.coordinator.group.sync import Syncer
from barnabas_broker.coordinator.group.topics import AnyTopics, Topics, bound_id, is_of
from barnabas_broker.coordinator.runtime.journal import UndoJournal
from barnabas_broker.coordinator.runtime.shard import (
    CoordinatorRecord,
    Instant,
    Result,
    TimerAction,
)
from barnabas_broker.coordinator.runtime.timers import ShardTimers
from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from barnabas_protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.join_group import JoinGroupRequest
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas_protocol.messages.list_groups import ListedGroup
from barnabas_protocol.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from barnabas_protocol.messages.sync_group import SyncGroupRequest
from barnabas_protocol.records.record import Record

logger = logging.getLogger(__name__)

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
SHARE_TYPE = "share"
_EXPIRY_KEY = ("expiry",)
# How often the limit of groups may have idle ones expire.
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
        configs: GroupConfigs | None = None,
        resolver: PatternResolver | None = None,
        share_configs: ShareGroupConfigs | None = None,
    ) -> None:
        self.partition = partition
        self.settings = settings
        self.metrics = metrics
        self.timers = ShardTimers[TimerAction]()
        self.journal = UndoJournal()
        quota = quota or settings.new_quota()
        self.groups = Groups(quota, self.journal)
        self.consumer_groups = ConsumerGroups(quota, self.journal)
        self.share_groups = ShareGroups(quota, self.journal)
        self.offsets = OffsetStore(self.journal)
        self._topics: Topics = topics or AnyTopics()
        self._expired_soon_ms = -EXPIRE_SOON_MS
        self._rebalancer = Rebalancer(settings, self.timers, metrics, self.groups)
        self._joiner = Joiner(self._rebalancer, self.groups, random)
        self.members = Syncer(self._rebalancer, self.groups)
        self.commits = OffsetCommands(
            self._rebalancer,
            self.groups,
            self.consumer_groups,
            self.share_groups,
            self.offsets,
            self._topics,
        )
        membership = self._membership = Membership(
            self.consumer_groups,
            self.timers,
            settings.consumer,
            configs or GroupConfigs(settings.consumer),
            metrics,
            self._topics,
        )
        conversions = self._conversions = Conversions(membership, self.groups, self._rebalancer)
        membership.downgrade = conversions.downgrade
        self._classic_requests = ClassicRequests(membership, conversions, random)
        self.patterns = PatternRefresh(membership, resolver or NoResolver())
        self.consumer_members = ConsumerHeartbeats(
            membership, self.patterns, random, self._consumer_group_for_join
        )
        self.share_partitions = PartitionCommands(
            self.share_groups, settings.share, self._topics, self._share_group_for_join
        )
        self._share_membership = ShareMembership(
            self.share_groups,
            self.share_partitions,
            self.timers,
            settings.share,
            share_configs or ShareGroupConfigs(settings.share),
            metrics,
            self._topics,
        )
        self.share_members = ShareHeartbeats(self._share_membership, self._share_group_for_join)
        self.groups.is_abandoned = self.commits.is_abandoned
        self.groups.given_back = self._rebalancer.forget_expired

    def join(
        self, request: JoinGroupRequest, context: RequestContext, now: Instant, reply: JoinReply
    ) -> Result[None]:
        """Take a JoinGroup; the response goes to `reply`, at once or when the join phase ends."""
        self.metrics.join_count += 1
        join = Join(request, context, now, reply)
        settings, timeout_ms = self.settings, request.session_timeout_ms
        if not settings.session_timeout_ms_min <= timeout_ms <= settings.session_timeout_ms_max:
            return join.fail(ErrorCode.INVALID_SESSION_TIMEOUT)
        if request.group_id in self.share_groups:
            return join.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self._joiner.join(join)
        if group.is_empty:
            return self._join_emptied(group, join)
        return self._classic_requests.join(group, join)

    def _join_emptied(self, group: ConsumerGroup, join: Join) -> Result[None]:
        """Take a join to a consumer group without members: it becomes a classic one."""
        result = self._joiner.join(join)
        classic = self.groups.get(group.group_id)
        if classic is not None:
            removed = self._conversions.remove_empty(group)
            self.journal.note(self.groups.withdraw, classic)
            result.records = [*removed.records, *result.records]
        return result

    def sync(self, request: SyncGroupRequest, now: Instant, reply: SyncReply) -> Result[None]:
        """Take a SyncGroup; the response goes to `reply`."""
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self.members.sync(request, now, reply)
        return self._classic_requests.sync(group, request, now, reply)

    def heartbeat(self, request: HeartbeatRequest, now: Instant) -> Result[HeartbeatResponse]:
        """Take a Heartbeat of the classic protocol."""
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self.members.heartbeat(request, now)
        return self._classic_requests.heartbeat(group, request, now)

    def leave(
        self, request: LeaveGroupRequest, api_version: int, now: Instant
    ) -> Result[LeaveGroupResponse]:
        """Take a LeaveGroup."""
        group = self.consumer_groups.get(request.group_id)
        if group is None:
            return self.members.leave(request, api_version, now)
        return self._classic_requests.leave(group, request, api_version, now)

    # ---- groups of the newer kinds -------------------------------------------------------------

    def _consumer_group_for_join(
        self, group_id: str, context: RequestContext, now: Instant
    ) -> GroupChanges:
        """Return the consumer group that a member joins. Raises: KafkaError 69, 81."""
        if group_id in self.share_groups:
            raise _wrong_kind(group_id, "consumer")
        return self._conversions.group_for_join(group_id, context, now)

    def _share_group_for_join(self, group_id: str, host: str, now: Instant) -> ShareGroup:
        """Return the share group of that id; it is made if there is none (SHR-28).

        Raises: KafkaError 69 for a group of another kind, 81 without room.
        """
        group = self.share_groups.get(group_id)
        if group is not None:
            return group
        if group_id in self.groups or group_id in self.consumer_groups:
            raise _wrong_kind(group_id, "share")
        if not self.groups.quota.has_room(host):
            self._rebalancer.make_room(now)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return self.share_groups.create(ShareGroup(group_id, host))

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
        elif isinstance(key, ConsumerGroupKey):
            if not self.consumer_groups.replay(key, record.value):
                self._skip(record, "unknown value version")
        elif isinstance(key, ShareGroupKey):
            if not self.share_groups.replay(key, record.value):
                self._skip(record, "unknown value version")
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
        self.consumer_groups.drop_remains()
        self.share_groups.drop_remains()
        for group_id in set(self.offsets.group_ids()):
            if not any(group_id in groups for groups in self._all_groups()):
                self.groups[group_id] = ClassicGroup(group_id)
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancer.start_session(
                    group, member.member_id, member.session_timeout_ms, now
                )
            is_unassigned = bool(group.members) and group.leader_id is None
            if is_unassigned or len(group.members) > self.settings.group_size_max:
                self._rebalancer.prepare(group, now)
        for consumer_group in self.consumer_groups.values():
            self._membership.start_all(consumer_group, now)
        for share_group in self.share_groups.values():
            self._share_membership.start_all(share_group, now)
        self.journal.start()
        self._rebalancer.expire_idle = self._expire_soon
        self._schedule_expiry(now, self.settings.expiry_interval_ms, [])
        return Result(reply=None)

    def close(self, code: ErrorCode) -> None:
        """Answer everything parked and let all groups go (OFS-4)."""
        self.timers.clear()
        for group in self.groups.values():
            group.answer_all(code)
            group.transition(GroupState.DEAD, group.state_changed_ms)
        self.groups.clear()
        for consumer_group in self.consumer_groups.values():
            consumer_group.is_dead = True
        self.consumer_groups.clear()
        for share_group in self.share_groups.values():
            share_group.is_dead = True
        self.share_groups.clear()

    def _all_groups(self) -> tuple[Groups, ConsumerGroups, ShareGroups]:
        return self.groups, self.consumer_groups, self.share_groups

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
        group_ids = rest or [*chain(*self._all_groups())]
        records: list[CoordinatorRecord] = []
        taken_out: list[ClassicGroup] = []
        while group_ids and len(records) < self.settings.expiry_step_tombstones_max:
            group_id = group_ids.pop()
            consumer_group = self.consumer_groups.get(group_id)
            if consumer_group is not None:
                records += self.commits.expire_consumer_group(consumer_group, now)
                continue
            share_group = self.share_groups.get(group_id)
            if share_group is not None:
                records += self.commits.expire_share_group(share_group)
                continue
            group = self.groups.get(group_id)
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

    # ---- descriptions --------------------------------------------------------------------------

    def listed_groups(
        self, states: Collection[str], types: Collection[str]
    ) -> Iterator[ListedGroup | None]:
        """The groups that there are now, one after the other, as each is when its turn comes.

        None for one that is not in one of the states or of the types, in lower case; no states and
        no types mean all.
        """
        known: list[tuple[str, list[ClassicGroup | ConsumerGroup | ShareGroup]]] = [
            (group_type, list(groups))
            for group_type, groups in (
                (CLASSIC_TYPE, self.groups.values()),
                (CONSUMER_TYPE, self.consumer_groups.values()),
                (SHARE_TYPE, self.share_groups.values()),
            )
            if not types or group_type in types
        ]
        for group_type, groups in known:
            for group in groups:
                state = group.state.value
                yield (
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=state,
                        group_type=group_type,
                    )
                    if not states or state.lower() in states
                    else None
                )

    def describe(self, group_id: str) -> DescribedGroup | str:
        """Return a classic group with its members, or why there is none of that name.

        Metadata and assignments are shown only while Stable: before, they are not in force.
        """
        group = self.groups.get(group_id)
        if group is None:
            if group_id in self.consumer_groups or group_id in self.share_groups:
                return f"Group {group_id} is not a classic group."
            return f"Group {group_id} not found."
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

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        """Return a consumer group with its members; 69 for any other."""
        group = self.consumer_groups.get(group_id)
        if group is not None:
            return describe(group, self.settings.consumer.assignors[0], self._topics)
        if group_id in self.groups or group_id in self.share_groups:
            return unknown_group(group_id, f"Group {group_id} is not a consumer group.")
        return unknown_group(group_id, f"Group {group_id} not found.")

    def describe_share_group(self, group_id: str) -> DescribedShareGroup:
        """Return a share group with its members; 69 for any other."""
        group = self.share_groups.get(group_id)
        if group is not None:
            return describe_share_group(group, self._topics)
        if group_id in self.groups or group_id in self.consumer_groups:
            return unknown_share_group(group_id, f"Group {group_id} is not a share group.")
        return unknown_share_group(group_id, f"Group {group_id} not found.")

    def count_by_state(self) -> Counter[GroupState]:
        """Return how many groups are in each state."""
        return Counter(group.state for group in self.groups.values())


def _wrong_kind(group_id: str, wanted: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {wanted} group.")

"""ConsumerGroupHeartbeat: everything that a member of the consumer protocol does.

Source: CG-1 to CG-5, CG-9; texts of refusals are Kafka's. Not here: the steps that other requests
share (`membership.py`), conversions of classic groups (`conversion.py`).

    epoch 0     join, or begin anew: a full request
    epoch > 0   stay; null fields are unchanged
    epoch -1    leave;  -2: a static member leaves for a while

Invariant: the response carries an assignment only on epoch 0, after a full request, or when it has
changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from barnabas_broker.coordinator.group.consumer.changes import GroupChanges
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING_OWNED,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
)
from barnabas_broker.coordinator.group.consumer.membership import Membership
from barnabas_broker.coordinator.group.consumer.pattern_refresh import PatternRefresh
from barnabas_broker.coordinator.group.consumer.patterns import check_pattern
from barnabas_broker.coordinator.group.consumer.reconciliation import Reported
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.runtime.shard import (
    Instant,
    Result,
    with_reply,
)
from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# From here on the client makes the member id.
CLIENT_MEMBER_ID_SINCE = 1
# It is in several records for each member, and in memory.
MEMBER_ID_CHARS_MAX = 1_024
# Records of one heartbeat that share a batch whatever comes.
BATCH_BYTES_MAX = 512 * 1024

# Gives the group that a member joins, made or converted for it if need be: the records of that are
# in the changes already. Raises: KafkaError 69, 81.
GroupForJoin = Callable[[str, RequestContext, Instant], GroupChanges]


class ConsumerHeartbeats:
    """Takes the heartbeats for the consumer groups of one shard."""

    def __init__(
        self,
        membership: Membership,
        patterns: PatternRefresh,
        random: Random,
        group_for_join: GroupForJoin,
    ) -> None:
        self._membership = membership
        self._groups = membership.groups
        self._settings = membership.settings
        self._patterns = patterns
        self._random = random
        self._group_for_join = group_for_join

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Instant
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """Take one heartbeat. Raises: KafkaError."""
        self._membership.metrics.heartbeat_count += 1
        self._check(request, context.api_version)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now)
        is_join = request.member_epoch == JOIN_EPOCH
        if is_join:
            changes = self._group_for_join(request.group_id, context, now)
        else:
            changes = self._groups.changes(self._group(request.group_id, "Consumer group"))
        group = changes.group
        reported = _reported(request)
        former = group.members.get(request.member_id)
        before = self._member(changes, request, reported)
        updated = self._updated(before, request, context)
        preferred = group.preferred_assignor()
        is_due = group.group_epoch == 0
        # Who takes another instance over lets go what it had as the former one.
        is_due |= former is not None and former.instance_id != updated.instance_id
        if updated != before or before.member_id not in group.members:
            known = group.members.get(before.member_id)
            self._membership.check_topics(
                group, () if known is None else known.topics, updated.topics
            )
            self._membership.check_metadata(group, known, updated.metadata_bytes)
            is_due |= updated.topics != before.topics
            is_due |= self._pattern_changed(group, before, updated)
            changes.member(updated)
            if before.pattern != updated.pattern:
                self._membership.forget_pattern(changes, before.pattern)
            is_due |= group.preferred_assignor() != preferred
        self._patterns.ask_if_due(group, context.sees_topic, now)
        self._membership.refresh_epoch(changes, is_due=is_due)
        self._membership.update_targets(changes, now)
        member = self._membership.reconcile(changes, updated, reported, now)
        self._membership.touch(group, member, now)
        is_full = is_join or (
            request.rebalance_timeout_ms != -1
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
            and reported is not None
        )
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._membership.configs.heartbeat_interval_ms(group.group_id),
            assignment=_assignment(member)
            if is_full or member.assigned != before.assigned
            else None,
        )

        if changes.accepted is not None:
            changes.accepted()
        size_bytes = sum(record.size_bytes for record in changes.records)
        return Result(
            reply=response,
            records=changes.records,
            on_append=self._membership.if_refused(changes),
            # What it shows may be on its way into the log still.
            waits_for_commit=True,
            # The targets of very many members need not be in one batch: their epoch comes last.
            is_atomic=changes.refused is not None or size_bytes < BATCH_BYTES_MAX,
        )

    def _group(self, group_id: str, kind: str = "Group") -> ConsumerGroup:
        """Return a group that must be there. Raises: KafkaError 69."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        return group

    # ---- checks --------------------------------------------------------------------------------

    def _check(self, request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
        """Refuse what no group could take. Raises: KafkaError 42, 112."""
        epoch = request.member_epoch
        _refuse_if(request.group_id == "", "GroupId can't be empty.")
        _refuse_if(request.instance_id == "", "InstanceId can't be empty.")
        _refuse_if(request.rack_id == "", "RackId can't be empty.")
        if epoch != JOIN_EPOCH or api_version >= CLIENT_MEMBER_ID_SINCE:
            _refuse_if(request.member_id == "", "MemberId can't be empty.")
        _refuse_if(len(request.member_id) > MEMBER_ID_CHARS_MAX, "MemberId is too long.")
        if epoch == JOIN_EPOCH:
            _refuse_if(
                request.rebalance_timeout_ms == -1,
                "RebalanceTimeoutMs must be provided in first request.",
            )
            _refuse_if(
                request.topic_partitions is None or bool(request.topic_partitions),
                "TopicPartitions must be empty when (re-)joining.",
            )
            _refuse_if(
                request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining.",
            )
        elif epoch == STATIC_LEAVE_EPOCH:
            _refuse_if(request.instance_id is None, "InstanceId can't be null.")
        else:
            _refuse_if(epoch < STATIC_LEAVE_EPOCH, "MemberEpoch is invalid.")
        assignor = request.server_assignor
        if assignor is not None and assignor not in self._settings.assignors:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {assignor} is not supported. "
                f"Supported assignors: {', '.join(self._settings.assignors)}.",
            )

    def _check_room(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
        if len(group.members) < self._settings.group_size_max or member_id in group.members:
            return
        if instance_id is not None and instance_id in group.static_member_ids:
            return
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{self._settings.group_size_max} members.",
        )

    # ---- the member ----------------------------------------------------------------------------

    def _member(
        self, changes: GroupChanges, request: ConsumerGroupHeartbeatRequest, reported: Reported
    ) -> ConsumerMember:
        """Return the member as it was before the request; a new one is not in the group yet."""
        group, member_id = changes.group, request.member_id
        if request.member_epoch == JOIN_EPOCH:
            self._check_room(group, member_id, request.instance_id)
            return self._joining(changes, member_id, request.instance_id)
        if request.instance_id is None:
            member = member_of(group, member_id)
        else:
            member = static_member_of(group, member_id, request.instance_id)
        check_epoch(member, request.member_epoch, reported)
        return member

    def _joining(
        self, changes: GroupChanges, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        group = changes.group
        if not member_id:
            member_id = str(uuid.UUID(bytes=self._random.uuid()))
        held = None if instance_id is None else group.static_member(instance_id)
        if held is None or (held.member_id == member_id and not held.is_away):
            # One that is known begins anew, and has said that it has nothing.
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        if not held.is_away and held.classic is None:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {held.member_id} member.",
            )
        return replace_static(changes, held, member_id)

    def _updated(
        self,
        member: ConsumerMember,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
    ) -> ConsumerMember:
        names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
        return replace(
            member,
            instance_id=_either(request.instance_id, member.instance_id),
            rack_id=_either(request.rack_id, member.rack_id),
            rebalance_timeout_ms=member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            assignor=_either(request.server_assignor, member.assignor),
            topics=member.topics
            if names is None or frozenset(names) == member.topics
            else frozenset(names),
            pattern=member.pattern if pattern is None else pattern or None,
            client_id=context.client_id,
            client_host=context.client_host,
            classic=None,
        )

    def _pattern_changed(
        self, group: ConsumerGroup, before: ConsumerMember, updated: ConsumerMember
    ) -> bool:
        """Whether another pattern is in force at once. Raises: KafkaError 128."""
        pattern = updated.pattern
        if pattern == before.pattern:
            return False
        if pattern is not None and pattern not in group.pattern_counts:
            check_pattern(pattern, self._settings.pattern_chars_max)
        had_any = before.pattern is not None and before.pattern in group.patterns
        return had_any or (pattern is not None and pattern in group.patterns)

    # ---- leaving -------------------------------------------------------------------------------

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now: Instant
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        group = self._group(request.group_id)
        if request.instance_id is None:
            member = member_of(group, request.member_id)
        else:
            member = static_member_of(group, request.member_id, request.instance_id)
        self._membership.metrics.leave_count += 1
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == LEAVE_EPOCH:
            return with_reply(self._membership.fence(group, [member], now), response)
        changes = self._groups.changes(group)
        changes.current(replace(member, member_epoch=STATIC_LEAVE_EPOCH, revoking=NOTHING_OWNED))
        on_append = self._membership.if_refused(changes)
        return Result(reply=response, records=changes.records, on_append=on_append)


def replace_static(changes: GroupChanges, held: ConsumerMember, member_id: str) -> ConsumerMember:
    """Let a static member come back under another id; it takes over what the former id had."""
    target = changes.group.target_of(held.member_id)
    member = replace(held, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    changes.remove_member(held.member_id)
    changes.member(member)
    changes.target(member_id, target)
    changes.current(member)
    return member


def member_of(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member that must be there. Raises: KafkaError 25."""
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def static_member_of(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member that must have the instance id. Raises: KafkaError 25, 82."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def check_epoch(member: ConsumerMember, received: int, reported: Reported) -> None:
    """Refuse another epoch than the member's own, unless its last response was lost.

    Raises: KafkaError 110.
    """
    if received == member.member_epoch:
        return
    relation = "greater" if received > member.member_epoch else "smaller"
    if relation == "smaller" and received == member.previous_member_epoch:
        assigned = member.assigned
        if reported is not None and all(
            partition in assigned.get(topic_id, ())
            for topic_id, partitions in reported.items()
            for partition in partitions
        ):
            return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({received}) than the one known "
        f"by the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported:
    if request.topic_partitions is None:
        return None
    reported: dict[bytes, list[int]] = {}
    for topic in request.topic_partitions:
        reported.setdefault(topic.topic_id, []).extend(topic.partitions)
    return reported


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )


def _either(given: str | None, before: str | None) -> str | None:
    return before if given is None else given


def _refuse_if(is_wrong: bool, reason: str) -> None:
    if is_wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)

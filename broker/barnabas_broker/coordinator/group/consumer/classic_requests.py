"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

Source: CG-7; KIP-848, "Migration". To such a member the coordinator is a leader that has assigned
already: its join brings it one step nearer to the target, its sync gives it what it has then, and a
heartbeat tells it to join again (27) when there is more to do. Its generation is its member epoch.
"""

from __future__ import annotations

from dataclasses import replace

from barnabas_broker.coordinator.group.consumer.changes import GroupChanges
from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.conversion import Conversions, classic_assignment
from barnabas_broker.coordinator.group.consumer.heartbeat import (
    member_of,
    replace_static,
    static_member_of,
)
from barnabas_broker.coordinator.group.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
)
from barnabas_broker.coordinator.group.consumer.membership import Membership
from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.join import MEMBER_ID_REQUIRED_SINCE, Join
from barnabas_broker.coordinator.group.members import (
    SyncReply,
    join_error,
    metadata_size,
    sync_error,
)
from barnabas_broker.coordinator.group.sync import LEAVE_MANY_SINCE
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change, with_reply
from barnabas_broker.env.randomness import Random
from barnabas_protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.join_group import JoinGroupResponse
from barnabas_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicRequests:
    """Takes the requests of classic members for the consumer groups of one shard."""

    def __init__(self, membership: Membership, conversions: Conversions, random: Random) -> None:
        self._membership = membership
        self._groups = membership.groups
        self._conversions = conversions
        self._random = random

    # ---- join ----------------------------------------------------------------------------------

    def join(self, group: ConsumerGroup, join: Join) -> Result[None]:
        """Take a join; the response goes to its reply when what it changed is committed."""
        request = join.request
        try:
            self._check_protocols(group, join)
            self._check_room(group, join)
        except KafkaError as error:
            return join.fail(error.code)
        instance_id, member_id = request.group_instance_id, request.member_id
        if not member_id:
            member_id = join.new_member_id(self._random)
            version = join.context.api_version
            if instance_id is None and version >= MEMBER_ID_REQUIRED_SINCE:
                join.reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
                return no_change()
        changes = self._groups.changes(group)
        was_mixed = group.classic_count < len(group.members)
        try:
            subscription = self._subscription(join)
            self._check_topics(group, join, subscription)
            before = self._member(changes, join, member_id, subscription)
        except KafkaError as error:
            return join.fail(error.code)
        updated = self._updated(before, subscription, join)
        member = self._step(changes, before, updated, subscription, join)
        result = self._conversions.downgrade_if_classic(group, join.now) if was_mixed else None
        generation_id = member.member_epoch if result is None else group.group_epoch
        if result is None:
            result = Result(reply=None)
        result.records = [*changes.records, *result.records]
        # What it shows may be on its way into the log still, also where it changes nothing itself.
        result.waits_for_commit = True
        return self._replying(result, changes, member, generation_id, join)

    def _updated(
        self, before: ConsumerMember, subscription: Subscription, join: Join
    ) -> ConsumerMember:
        return replace(
            before,
            instance_id=join.request.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            pattern=None,
            client_id=join.context.client_id,
            client_host=join.context.client_host,
            classic=ClassicSide(
                session_timeout_ms=join.request.session_timeout_ms, protocols=join.protocols
            ),
        )

    def _step(
        self,
        changes: GroupChanges,
        before: ConsumerMember,
        updated: ConsumerMember,
        subscription: Subscription,
        join: Join,
    ) -> ConsumerMember:
        group, membership = changes.group, self._membership
        is_due = group.group_epoch == 0
        if updated != before or before.member_id not in group.members:
            is_due |= updated.topics != before.topics or updated.pattern != before.pattern
            changes.member(updated)
            membership.forget_pattern(changes, before.pattern)
        membership.refresh_epoch(changes, is_due=is_due)
        membership.update_targets(changes, join.now)
        reported: dict[bytes, tuple[int, ...]] = {}
        for topic, partitions in (subscription.owned_partitions or {}).items():
            topic_id = membership.topics.topic_id(topic)
            if topic_id is not None:
                reported[topic_id] = partitions
        try:
            return membership.reconcile(changes, updated, reported, join.now)
        except KafkaError:
            # Its state cannot be read; it is to come back with nothing.
            return updated

    def _replying(
        self,
        result: Result[None],
        changes: GroupChanges,
        member: ConsumerMember,
        generation_id: int,
        join: Join,
    ) -> Result[None]:
        carry_on, if_refused = result.on_append, self._membership.if_refused(changes)

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if error is not None:
                join.fail(append_error(error.code))
                if if_refused is not None:
                    if_refused(error, then)
            else:
                self._joined(changes.group, member, generation_id, join, then)
            return no_change() if carry_on is None else carry_on(error, then)

        result.on_append = on_append
        result.on_timeout = lambda error, then: join.fail(append_error(error.code))
        return result

    def _joined(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        generation_id: int,
        join: Join,
        now: Instant,
    ) -> None:
        if self._groups.get(group.group_id) is group and member.member_id in group.members:
            self._membership.touch(group, member, now)
            self._membership.cancel("join", group, member.member_id)
            self._membership.expire_unless("sync", group, member, _is_classic, now)
        join.reply(
            JoinGroupResponse(
                generation_id=generation_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=join.protocols[0][0],
                member_id=member.member_id,
            )
        )

    # ---- checks of a join ----------------------------------------------------------------------

    def _check_protocols(self, group: ConsumerGroup, join: Join) -> None:
        """Refuse a member that no other one can be with. Raises: KafkaError 23."""
        protocols = join.protocols
        names = {name for name, _ in protocols}
        classic = [each.classic for each in group.members.values() if each.classic is not None]
        is_supported = not classic or any(
            all(name in {each for each, _ in side.protocols} for side in classic) for name in names
        )
        if join.request.protocol_type != PROTOCOL_TYPE or not protocols or not is_supported:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _subscription(self, join: Join) -> Subscription:
        """Return what the member subscribes to. Raises: KafkaError 23."""
        try:
            return decode_subscription(join.protocols[0][1])
        except ParseError:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None

    def _check_room(self, group: ConsumerGroup, join: Join) -> None:
        """Refuse a member more than there may be, or one that says too much.

        Raises: KafkaError 81.
        """
        known = _known(group, join)
        # What it subscribes to is in the metadata as well, which counts for both then.
        size = 2 * metadata_size(join.protocols)
        self._membership.check_metadata(group, known, size)
        if known is None and len(group.members) >= self._membership.settings.group_size_max:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _check_topics(self, group: ConsumerGroup, join: Join, subscription: Subscription) -> None:
        """Refuse a member that names too many topics. Raises: KafkaError 81."""
        known = _known(group, join)
        topics = frozenset(subscription.topics)
        self._membership.check_topics(group, () if known is None else known.topics, topics)

    def _member(
        self, changes: GroupChanges, join: Join, member_id: str, subscription: Subscription
    ) -> ConsumerMember:
        """Return the member as it was before; a new one is not in the group yet.

        An unknown id was given out just now, or is that of a member that has been removed: which
        may have partitions still that are others' by now, and is to let them go.

        Raises: KafkaError 25, 82.
        """
        group, instance_id = changes.group, join.request.group_instance_id
        if instance_id is None:
            known = group.members.get(member_id)
            if known is None and any((subscription.owned_partitions or {}).values()):
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            return known or ConsumerMember(member_id=member_id)
        if join.request.member_id:
            return static_member_of(group, member_id, instance_id)
        held = group.static_member(instance_id)
        if held is None:
            return ConsumerMember(member_id=member_id)
        return replace_static(changes, held, member_id)

    # ---- sync ----------------------------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now: Instant, reply: SyncReply
    ) -> Result[None]:
        """Give a member what it has, unless it is to join again first."""
        self._membership.metrics.sync_count += 1
        try:
            member = self._checked(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
            assert member.classic is not None
            name = member.classic.protocols[0][0]
            if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
                None,
                name,
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if self._is_behind(group, member, now) and (
                member.state is not MemberState.UNREVOKED_PARTITIONS
            ):
                self._await_join(group, member, now)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            reply(sync_error(error.code))
            return no_change()
        self._membership.cancel("sync", group, member.member_id)
        self._membership.touch(group, member, now)
        assigned = {key: frozenset(each) for key, each in member.assigned.items()}
        response = SyncGroupResponse(
            protocol_type=PROTOCOL_TYPE,
            protocol_name=name,
            assignment=classic_assignment(assigned, self._membership.topics),
        )

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            reply(response if error is None else sync_error(append_error(error.code)))
            return no_change()

        # A join of the same generation may be on its way into the log still.
        return Result(reply=None, waits_for_commit=True, on_append=on_append)

    # ---- heartbeat -----------------------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now: Instant
    ) -> Result[HeartbeatResponse]:
        """Prolong a session; 27 says that the member is to join again."""
        self._membership.metrics.heartbeat_count += 1
        try:
            member = self._checked(
                group, request.member_id, request.group_instance_id, request.generation_id
            )
        except KafkaError as error:
            return Result(reply=HeartbeatResponse(error_code=error.code))
        self._membership.touch(group, member, now)
        if self._is_behind(group, member, now) or self._may_go_on(group, member):
            self._await_join(group, member, now)
            return Result(reply=HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Result(reply=HeartbeatResponse())

    def _checked(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ConsumerMember:
        """Return the classic member that sends a request. Raises: KafkaError 22, 25, 82."""
        if instance_id is None:
            member = member_of(group, member_id)
        else:
            member = static_member_of(group, member_id, instance_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation_id != member.member_epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _is_behind(self, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> bool:
        """Whether there is a newer target, or there will be one as soon as a member joins."""
        return member.member_epoch < group.assignment_epoch or self._membership.are_targets_due(
            group, now
        )

    def _may_go_on(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether another join would bring the member nearer to its target."""
        match member.state:
            case MemberState.UNREVOKED_PARTITIONS:
                return True
            case MemberState.UNRELEASED_PARTITIONS:
                return all(
                    group.is_free(topic_id, partition)
                    for topic_id, partitions in group.target_of(member.member_id).items()
                    for partition in partitions
                    if partition not in member.assigned.get(topic_id, ())
                )
            case _:
                return False

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
        self._membership.expire_unless("join", group, member, _is_classic, now, if_absent=True)

    # ---- leave ---------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, api_version: int, now: Instant
    ) -> Result[LeaveGroupResponse]:
        """Take out the members that are named, with one group epoch for all of them."""
        self._membership.metrics.leave_count += 1
        is_list = api_version >= LEAVE_MANY_SINCE
        identities = request.members if is_list else [MemberIdentity(member_id=request.member_id)]
        leaving: dict[str, ConsumerMember] = {}
        responses = []
        for identity in identities:
            response = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            try:
                member = self._leaving(group, identity)
                leaving[member.member_id] = member
            except KafkaError as error:
                response.error_code = error.code
            responses.append(response)
        result = no_change()
        if leaving:
            result = self._membership.fence(group, list(leaving.values()), now)
        if is_list:
            return with_reply(result, LeaveGroupResponse(members=responses))
        return with_reply(result, LeaveGroupResponse(error_code=responses[0].error_code))

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        """Return the member that is to go. Raises: KafkaError 25, 82."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if instance_id is not None:
            # An admin, who knows the instance only, may remove members of either protocol.
            held = group.static_member(instance_id)
            if not member_id and held is not None:
                return held
            return static_member_of(group, member_id, instance_id)
        member = member_of(group, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member


def _known(group: ConsumerGroup, join: Join) -> ConsumerMember | None:
    """Return the member that joins again, or whose place is taken."""
    instance_id = join.request.group_instance_id
    known = group.members.get(join.request.member_id)
    if known is None and instance_id is not None:
        known = group.static_member(instance_id)
    return known


def _is_classic(member: ConsumerMember) -> bool:
    return member.classic is not None

"""JoinGroup of the classic protocol: who may join, under which id, and what that sets off.

Not here: the course of the rebalance (`rebalance.py`). Source: GRP-2 to GRP-5, GRP-18, KIP-345,
KIP-394, KIP-814. The response goes to the `reply` callable, at once or when the join phase ends.

Invariants: every join gets exactly one response, whatever becomes of the group; a member id is
handed out only once.
"""

from __future__ import annotations

import uuid
from typing import assert_never

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES
from barnabas_broker.coordinator.group.groups import Groups
from barnabas_broker.coordinator.group.members import (
    ClassicMember,
    JoinReply,
    Protocols,
    join_error,
    metadata_size,
    remembered_size,
)
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.records import group_record
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change
from barnabas_broker.env.randomness import Random
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

# From here on a member must know its id before it counts (KIP-394).
MEMBER_ID_REQUIRED_SINCE = 4
# From here on a returning static leader can be kept from assigning (KIP-814).
SKIP_ASSIGNMENT_SINCE = 9


class Join:
    """One JoinGroup request, read once."""

    __slots__ = (
        "context",
        "member_id",
        "now",
        "protocols",
        "rebalance_timeout_ms",
        "reply",
        "request",
    )

    def __init__(
        self, request: JoinGroupRequest, context: RequestContext, now: Instant, reply: JoinReply
    ) -> None:
        self.request = request
        self.context = context
        self.now = now
        self.reply = reply
        self.member_id = request.member_id
        self.protocols: Protocols = tuple(
            (protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        )
        # Version 0 has no rebalance timeout.
        self.rebalance_timeout_ms = (
            request.session_timeout_ms
            if request.rebalance_timeout_ms < 0
            else request.rebalance_timeout_ms
        )

    def new_member_id(self, random: Random) -> str:
        """Return an id for a member that has none."""
        instance_id = self.request.group_instance_id
        prefix = self.context.client_id if instance_id is None else instance_id
        return f"{prefix}-{uuid.UUID(bytes=random.uuid())}"

    def fail(self, code: ErrorCode) -> Result[None]:
        """Answer with an error."""
        self.reply(join_error(code, self.member_id))
        return no_change()


class Joiner:
    """Takes joins for the groups of one shard."""

    def __init__(self, rebalancer: Rebalancer, groups: Groups, random: Random) -> None:
        self._rebalancer = rebalancer
        self._settings = rebalancer.settings
        self._groups = groups
        self._random = random

    def join(self, join: Join) -> Result[None]:
        """Take a join; the group is created if its member id is empty (GRP-2)."""
        request = join.request
        group = self._groups.get(request.group_id)
        if group is None:
            if join.member_id:
                return join.fail(ErrorCode.UNKNOWN_MEMBER_ID)
            host = join.context.client_host
            group = ClassicGroup(request.group_id, host)
            if not group.supports(request.protocol_type, (name for name, _ in join.protocols)):
                return join.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if not self._groups.quota.has_room(host):
                self._rebalancer.make_room(join.now)
                return join.fail(ErrorCode.GROUP_MAX_SIZE_REACHED)
            if not self._has_room_for_metadata(group, join):
                return join.fail(ErrorCode.GROUP_MAX_SIZE_REACHED)
            group.state_changed_ms = join.now.wall_ms
            self._groups[request.group_id] = group
        if group.state is GroupState.DEAD:
            return join.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        has_room = self._has_room(group, join.member_id)
        if not has_room or not self._has_room_for_metadata(group, join):
            return self._turn_away(group, join)
        if not group.supports(request.protocol_type, (name for name, _ in join.protocols)):
            return join.fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if join.member_id:
            return self._join_known(group, join)
        return self._join_unknown(group, join)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether `group.max.size` allows the join; who came first in a rebalance stays."""
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                member = group.members.get(member_id)
                is_waiting = member is not None and member.join_reply is not None
                return is_waiting or group.awaiting_join_count < self._settings.group_size_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                is_member = member_id in group.members
                return is_member or len(group.members) < self._settings.group_size_max
            case _:
                assert_never(group.state)

    def _has_room_for_metadata(self, group: ClassicGroup, join: Join) -> bool:
        """Whether what the member says is bounded, and that of all members together.

        Of this group and of all groups; who says no more than before is not refused.
        """
        size = metadata_size(join.protocols)
        if size > self._settings.member_metadata_bytes_max:
            return False
        known = group.members.get(join.member_id)
        before = 0 if known is None else metadata_size(known.protocols)
        if group.metadata_bytes - before + size > self._settings.group_metadata_bytes_max:
            return False
        remembered = 0 if known is None else remembered_size(known.protocols)
        more = remembered_size(join.protocols) - remembered
        if known is None and join.member_id not in group.pending_member_ids:
            names = (join.context.client_id, join.request.group_instance_id or "")
            more += MEMBER_BYTES + 2 * sum(map(len, names))
        return more <= 0 or self._groups.quota.memory.has_room(group.owner_host, more)

    def _turn_away(self, group: ClassicGroup, join: Join) -> Result[None]:
        join.fail(ErrorCode.GROUP_MAX_SIZE_REACHED)
        member = group.members.get(join.member_id)
        if member is not None:
            return self._rebalancer.remove_member(group, member, join.now)
        if join.member_id in group.pending_member_ids:
            return self._rebalancer.remove_pending(group, join.member_id, join.now)
        return no_change()

    # ---- without a member id -----------------------------------------------------------------

    def _join_unknown(self, group: ClassicGroup, join: Join) -> Result[None]:
        request = join.request
        instance_id = request.group_instance_id
        new_id = join.new_member_id(self._random)
        if instance_id is not None:
            old_id = group.static_member_ids.get(instance_id)
            if old_id is not None:
                return self._replace_static(group, join, old_id, new_id)
        elif join.context.api_version >= MEMBER_ID_REQUIRED_SINCE:
            group.expect(new_id)
            self._rebalancer.start_session(group, new_id, request.session_timeout_ms, join.now)
            join.reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))
            return no_change()
        return self._add(group, join, new_id)

    def _add(self, group: ClassicGroup, join: Join, member_id: str) -> Result[None]:
        request = join.request
        self._rebalancer.stop_session(group, member_id)
        member = ClassicMember(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=join.context.client_id,
            client_host=join.context.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=join.protocols,
            is_new=True,
        )
        member.join_reply = join.reply
        group.add(member, request.protocol_type)
        if group.is_in_initial_delay:
            group.member_added_in_delay = True
        self._rebalancer.start_session(
            group, member_id, self._settings.new_member_join_timeout_ms, join.now
        )
        return self._rebalancer.prepare_if_possible(group, join.now)

    # ---- with a member id --------------------------------------------------------------------

    def _join_known(self, group: ClassicGroup, join: Join) -> Result[None]:
        if join.member_id in group.pending_member_ids:
            if join.request.group_instance_id is not None:
                # Static members are never pending: the client mixes up two of its members.
                return join.fail(ErrorCode.UNKNOWN_MEMBER_ID)
            return self._add(group, join, join.member_id)
        try:
            member = group.validate(join.member_id, join.request.group_instance_id)
        except KafkaError as error:
            return join.fail(error.code)
        is_leader = group.leader_id == member.member_id
        is_unchanged = member.protocols == join.protocols
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return self._park(group, member, join)
            case GroupState.COMPLETING_REBALANCE:
                if is_unchanged:
                    return self._repeat_generation(group, member, join, with_members=is_leader)
                return self._park(group, member, join)
            case GroupState.STABLE:
                if is_unchanged and not is_leader:
                    return self._repeat_generation(group, member, join, with_members=False)
                return self._park(group, member, join)
            case GroupState.EMPTY | GroupState.DEAD:
                return join.fail(ErrorCode.UNKNOWN_MEMBER_ID)
            case _:
                assert_never(group.state)

    def _repeat_generation(
        self, group: ClassicGroup, member: ClassicMember, join: Join, *, with_members: bool
    ) -> Result[None]:
        """Answer a repeated join with what the member has missed or already knows (GRP-5)."""
        self._rebalancer.touch(group, member, join.now)
        join.reply(self._rebalancer.joined(group, member, with_members=with_members))
        return no_change()

    def _park(self, group: ClassicGroup, member: ClassicMember, join: Join) -> Result[None]:
        group.update(
            member, join.protocols, join.rebalance_timeout_ms, join.request.session_timeout_ms
        )
        group.park_join(member, join.reply)
        self._rebalancer.touch(group, member, join.now)
        return self._rebalancer.prepare_if_possible(group, join.now)

    # ---- static members ------------------------------------------------------------------------

    def _replace_static(
        self, group: ClassicGroup, join: Join, old_id: str, new_id: str
    ) -> Result[None]:
        """Let a restarted static member take its place again (GRP-18)."""
        request, now = join.request, join.now
        old_leader_id = group.leader_id
        member = group.replace_static(old_id, new_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        sender_before = (member.client_id, member.client_host)
        group.update(member, join.protocols, join.rebalance_timeout_ms, request.session_timeout_ms)
        member.client_id = join.context.client_id
        member.client_host = join.context.client_host
        self._rebalancer.stop_session(group, old_id)
        self._rebalancer.start_session(group, new_id, member.session_timeout_ms, now)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            group.park_join(member, join.reply)
            return self._rebalancer.prepare_if_possible(group, now)
        group.compute_subscribed_topics()

        def on_append(error: KafkaError | None, then: Instant) -> Result[None]:
            if group.members.get(new_id) is not member:
                # It left, or was replaced again, while the record was under way.
                return join.fail(ErrorCode.UNKNOWN_MEMBER_ID)
            if error is None:
                join.reply(self._took_over(group, member, join, old_leader_id))
                return no_change()
            if group.state is GroupState.STABLE:
                group.replace_static(new_id, old_id)
                group.update(member, *before)
                member.client_id, member.client_host = sender_before
                group.compute_subscribed_topics()
                self._rebalancer.stop_session(group, new_id)
                self._rebalancer.start_session(group, old_id, member.session_timeout_ms, then)
            return join.fail(append_error(error.code))

        return Result(reply=None, records=[group_record(group)], on_append=on_append)

    def _took_over(
        self, group: ClassicGroup, member: ClassicMember, join: Join, old_leader_id: str | None
    ) -> JoinGroupResponse:
        """Return the response to a static member that gets its old assignment with its next sync.

        A client before version 9 would compute an assignment if it saw itself as leader, so it is
        given its old id as the leader's.
        """
        is_leader = group.leader_id == member.member_id
        if join.context.api_version >= SKIP_ASSIGNMENT_SINCE:
            response = self._rebalancer.joined(group, member, with_members=is_leader)
            response.skip_assignment = is_leader
        else:
            response = self._rebalancer.joined(group, member, with_members=False)
            response.leader = old_leader_id or ""
        return response

"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Not here: the course of the rebalance (`rebalance.py`). Source: GRP-10, GRP-11, GRP-14, GRP-17.
Invariant: a sync gets exactly one response: at once, with the leader's assignment when that is
committed, or with the error that ended the rebalance. A generation has one assignment: the first
that its leader sends.
"""

from __future__ import annotations

from typing import assert_never

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.errors import append_error
from barnabas_broker.coordinator.group.members import ClassicMember, SyncReply, sync_error
from barnabas_broker.coordinator.group.rebalance import Rebalancer
from barnabas_broker.coordinator.group.records import group_record
from barnabas_broker.coordinator.runtime.shard import Instant, Result, no_change, with_reply
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from barnabas_protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# From here on a leave names a list of members, each with its own error (KIP-345).
LEAVE_MANY_SINCE = 3


class Syncer:
    """Takes syncs, heartbeats and leaves for the groups of one shard."""

    def __init__(self, rebalancer: Rebalancer, groups: dict[str, ClassicGroup]) -> None:
        self._rebalancer = rebalancer
        self._metrics = rebalancer.metrics
        self._groups = groups

    # ---- sync ----------------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, now: Instant, reply: SyncReply) -> Result[None]:
        """Take a sync; the response goes to `reply`."""
        self._metrics.sync_count += 1
        try:
            group, member = self._validate_sync(request)
        except KafkaError as error:
            reply(sync_error(error.code))
            return no_change()
        match group.state:
            case GroupState.EMPTY:
                reply(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            case GroupState.PREPARING_REBALANCE:
                self._rebalancer.touch(group, member, now)
                reply(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
            case GroupState.COMPLETING_REBALANCE:
                group.park_sync(member, reply)
                self._rebalancer.synced(group, member)
                if (
                    member.member_id == group.leader_id
                    and group.assigned_generation_id != group.generation_id
                ):
                    return self._persist(group, request)
            case GroupState.STABLE:
                self._rebalancer.synced(group, member)
                self._rebalancer.touch(group, member, now)
                reply(_synced(group, member))
            case GroupState.DEAD:
                reply(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            case _:
                assert_never(group.state)
        return no_change()

    def _validate_sync(self, request: SyncGroupRequest) -> tuple[ClassicGroup, ClassicMember]:
        group = self._groups.get(request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.validate(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if group.protocol_name is not None and (
            request.protocol_type not in (None, group.protocol_type)
            or request.protocol_name not in (None, group.protocol_name)
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return group, member

    def _persist(self, group: ClassicGroup, request: SyncGroupRequest) -> Result[None]:
        """Write the leader's assignment; it is in force when that is committed (GRP-11)."""
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation_id = group.generation_id
        group.assigned_generation_id = generation_id

        def is_awaited() -> bool:
            """Whether no other rebalance has begun meanwhile and ended the syncs."""
            return (
                group.state is GroupState.COMPLETING_REBALANCE
                and group.generation_id == generation_id
            )

        def failed(error: KafkaError, now: Instant) -> Result[None]:
            if not is_awaited():
                return no_change()
            self._metrics.append_failure_count += 1
            self._rebalancer.fail_syncs(group, append_error(error.code), now)
            return self._rebalancer.prepare(group, now)

        def on_append(error: KafkaError | None, now: Instant) -> Result[None]:
            if error is not None:
                return failed(error, now)
            if not is_awaited():
                return no_change()
            group.transition(GroupState.STABLE, now.wall_ms)
            for member in list(group.members.values()):
                member.assignment = assignments.get(member.member_id, b"")
                if member.answer_sync(_synced(group, member)):
                    self._rebalancer.touch(group, member, now)
            return no_change()

        return Result(
            reply=None,
            records=[group_record(group, assignments)],
            on_append=on_append,
            on_timeout=failed,
        )

    # ---- heartbeat -----------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest, now: Instant) -> Result[HeartbeatResponse]:
        """Prolong a session; the response shows whether the member has to join again."""
        self._metrics.heartbeat_count += 1
        return Result(reply=HeartbeatResponse(error_code=self._heartbeat(request, now)))

    def _heartbeat(self, request: HeartbeatRequest, now: Instant) -> ErrorCode:
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = group.validate(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return error.code
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        match group.state:
            case GroupState.EMPTY:
                return ErrorCode.UNKNOWN_MEMBER_ID
            case GroupState.PREPARING_REBALANCE:
                self._rebalancer.touch(group, member, now)
                return ErrorCode.REBALANCE_IN_PROGRESS
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self._rebalancer.touch(group, member, now)
                return ErrorCode.NONE
            case _:
                assert_never(group.state)

    # ---- leave ---------------------------------------------------------------------------------

    def leave(
        self, request: LeaveGroupRequest, api_version: int, now: Instant
    ) -> Result[LeaveGroupResponse]:
        """Take out the members that are named, with one rebalance for all of them."""
        self._metrics.leave_count += 1
        is_list = api_version >= LEAVE_MANY_SINCE
        identities = request.members if is_list else [MemberIdentity(member_id=request.member_id)]
        group = self._groups.get(request.group_id)
        if group is None:
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
            result = no_change()
        elif group.state is GroupState.DEAD:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Result(reply=LeaveGroupResponse(error_code=code))
        else:
            size_before = len(group.members)
            codes = [self._leave_one(group, identity) for identity in identities]
            if len(group.members) < size_before:
                result = self._rebalancer.after_removal(group, now)
            else:
                # At most ids that had not joined yet are gone: somebody may have waited for them.
                result = self._rebalancer.complete_join_if_all_joined(group, now)
        if not is_list:
            return with_reply(result, LeaveGroupResponse(error_code=codes[0]))
        members = [
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
            for identity, code in zip(identities, codes, strict=True)
        ]
        return with_reply(result, LeaveGroupResponse(members=members))

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id in group.pending_member_ids:
            if instance_id is not None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._rebalancer.stop_session(group, member_id)
            group.forget_pending(member_id)
            return ErrorCode.NONE
        if not member_id and instance_id is not None:
            # Removal by an admin, who knows the instance only.
            member_id = group.static_member_ids.get(instance_id, "")
        try:
            member = group.validate(member_id, instance_id)
        except KafkaError as error:
            return error.code
        self._rebalancer.detach(group, member)
        return ErrorCode.NONE


def _synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )

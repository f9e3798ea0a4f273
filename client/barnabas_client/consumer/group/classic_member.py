"""A member of a classic group: which request comes next, and what each response means.

Pure: no I/O, no clock. The shell around it is `classic_membership.py`; what the leader computes is
in `group_leader.py`.

    UNJOINED    outside of the group, or not a good member    -> PREPARING
    PREPARING   partitions are given up, callbacks run        -> JOINING
    JOINING     JoinGroup is sent or to be sent again         -> SYNCING, UNJOINED
    SYNCING     SyncGroup is sent                             -> ASSIGNED, JOINING, UNJOINED
    ASSIGNED    partitions have come, callbacks to be run     -> STABLE, UNJOINED
    STABLE      heartbeats                                    -> PREPARING, UNJOINED

Source: GRP-1 to GRP-22 from the other side; KIP-345 (static members), KIP-394 (member
ids), KIP-429 (cooperative), KIP-800 (reasons), KIP-814 (static leaders).
Invariants: a member without a generation has lost its partitions: they are reported lost, not
revoked, before it joins again. Responses to requests of an earlier generation change nothing. Eager
members own nothing while they join; cooperative ones keep what they have and revoke, once the
assignment is there, only what is not theirs any more; then they join again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.consumer.assignors import NO_GENERATION, Assignor, flattened, grouped
from barnabas_client.consumer.group.rebalance_steps import AssignmentChange, Reaction
from barnabas_client.errors import BarnabasError, ClientBrokenError, error_for, known_code
from barnabas_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Partitions,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.heartbeat import HeartbeatRequest
from barnabas_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from barnabas_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_FATAL_TO_MEMBER: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_COORDINATOR_ELSEWHERE: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class ClassicMemberState(Enum):
    """How far the member is; the module's docstring has the moves."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    JOINING = "joining"
    SYNCING = "syncing"
    ASSIGNED = "assigned"
    STABLE = "stable"


_MOVES: Final = {
    ClassicMemberState.UNJOINED: {ClassicMemberState.PREPARING, ClassicMemberState.UNJOINED},
    ClassicMemberState.PREPARING: {ClassicMemberState.JOINING, ClassicMemberState.UNJOINED},
    ClassicMemberState.JOINING: {ClassicMemberState.SYNCING, ClassicMemberState.UNJOINED},
    ClassicMemberState.SYNCING: {
        ClassicMemberState.ASSIGNED,
        ClassicMemberState.JOINING,
        ClassicMemberState.UNJOINED,
    },
    ClassicMemberState.ASSIGNED: {ClassicMemberState.STABLE, ClassicMemberState.UNJOINED},
    ClassicMemberState.STABLE: {ClassicMemberState.PREPARING, ClassicMemberState.UNJOINED},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Partitions to revoke before joining; lost ones are given to others already."""

    partitions: tuple[TopicPartition, ...]
    is_lost: bool


class ClassicMember:
    """The state machine of one member of a classic group."""

    def __init__(
        self,
        group_id: str,
        assignors: Sequence[Assignor],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        group_instance_id: str | None = None,
        rack_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        # An eager member in between would see partitions that others still hold.
        self.is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self.state = ClassicMemberState.UNJOINED
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.protocol_name: str | None = None
        self.is_leader = False
        self.must_assign = False
        self.members: Sequence[JoinGroupResponseMember] = ()
        self.assignment: Partitions = {}
        # Why the next rebalance is wanted; None: it is not.
        self.rejoin_reason: str | None = None
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._rack_id = rack_id
        self._previous: Partitions | None = None
        self._previous_generation_id = NO_GENERATION

    # ---- what is due -----------------------------------------------------------------------

    @property
    def assignor(self) -> Assignor:
        """The assignor that the group has chosen."""
        return self._assignors[self.protocol_name or ""]

    @property
    def is_rebalance_due(self) -> bool:
        """Whether the program's next poll must prepare to join."""
        if self.state is ClassicMemberState.UNJOINED:
            return True
        return self.state is ClassicMemberState.STABLE and self.rejoin_reason is not None

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats.

        It does not while a JoinGroup or SyncGroup of the member waits there: a heartbeat would wait
        behind it.
        """
        return self.generation_id != NO_GENERATION and self.state in (
            ClassicMemberState.PREPARING,
            ClassicMemberState.ASSIGNED,
            ClassicMemberState.STABLE,
        )

    @property
    def accepts_commits(self) -> bool:
        """Whether the coordinator would take a commit: it does not between two generations."""
        return self.state not in (ClassicMemberState.JOINING, ClassicMemberState.SYNCING)

    def identity(self) -> ConsumerGroupMetadata:
        """What a commit carries: member and generation; -1 outside of a generation."""
        return ConsumerGroupMetadata(
            self.group_id, self.generation_id, self.member_id, self.group_instance_id
        )

    def request_rejoin(self, reason: str) -> None:
        """Rebalance at the next opportunity."""
        self.rejoin_reason = self.rejoin_reason or reason

    # ---- joining ---------------------------------------------------------------------------

    def begin_rebalance(
        self, owned: Iterable[TopicPartition], topics: frozenset[str]
    ) -> Revocation:
        """Start to join; return the partitions to revoke first."""
        self._move(ClassicMemberState.PREPARING)
        owned = tuple(owned)
        if self.generation_id == NO_GENERATION:
            return Revocation(partitions=owned, is_lost=True)
        if self.is_cooperative:
            owned = tuple(partition for partition in owned if partition.topic not in topics)
        return Revocation(partitions=owned, is_lost=False)

    def on_revoked(self) -> None:
        """The partitions are revoked: join now."""
        if self.state is ClassicMemberState.PREPARING:
            self._move(ClassicMemberState.JOINING)

    def join_request(
        self, topics: Iterable[str], owned: Iterable[TopicPartition]
    ) -> JoinGroupRequest:
        """JoinGroup with this subscription, for each assignor that is configured."""
        names = tuple(sorted(topics))
        owned_partitions = grouped(sorted(owned)) if self.is_cooperative else {}
        reason = self.rejoin_reason
        self.rejoin_reason = None
        protocols = [
            JoinGroupRequestProtocol(
                name=name,
                metadata=encode_subscription(
                    Subscription(
                        topics=names,
                        user_data=assignor.user_data(
                            names, self._previous, self._previous_generation_id
                        ),
                        owned_partitions=owned_partitions,
                        generation_id=self.generation_id,
                        rack_id=self._rack_id,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=reason,
        )

    def on_join_response(self, response: JoinGroupResponse) -> Reaction:
        """Take the response to JoinGroup.

        Raises: what joining again would not help against; the member is UNJOINED then.
        """
        code = known_code(response.error_code)
        if self.state is not ClassicMemberState.JOINING:
            return Reaction.GO_ON
        match code:
            case ErrorCode.NONE:
                return self._enter_generation(response)
            case ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                return Reaction.GO_ON
            case ErrorCode.COORDINATOR_LOAD_IN_PROGRESS | ErrorCode.REBALANCE_IN_PROGRESS:
                return Reaction.WAIT
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION:
                self._leave_generation(code, "the coordinator does not know the member that joined")
                return Reaction.GO_ON
        if code in _COORDINATOR_ELSEWHERE:
            return Reaction.FIND_COORDINATOR
        raise self._failure(code, "join")

    def _enter_generation(self, response: JoinGroupResponse) -> Reaction:
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._failure(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "join")
        name = response.protocol_name or ""
        if name not in self._assignors:
            self._leave_generation(ErrorCode.NONE, "the response makes no sense")
            raise ClientBrokenError(f"the group chose an assignor that was not offered: {name!r}")
        self.member_id = response.member_id
        self.generation_id = response.generation_id
        self.protocol_name = name
        self.is_leader = response.leader == response.member_id
        self.must_assign = self.is_leader and not response.skip_assignment
        self.members = response.members
        self._move(ClassicMemberState.SYNCING)
        return Reaction.GO_ON

    def sync_request(
        self, assignments: Sequence[SyncGroupRequestAssignment] = ()
    ) -> SyncGroupRequest:
        """SyncGroup; the leader sends the assignments of all members with it."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=list(assignments),
        )

    def on_sync_response(self, response: SyncGroupResponse) -> Reaction:
        """Take the response to SyncGroup.

        Raises: what joining again would not help against; the member is UNJOINED then.
        """
        if self.state is not ClassicMemberState.SYNCING:
            return Reaction.GO_ON
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            self._take_assignment(response)
            return Reaction.GO_ON
        if code in _FATAL_TO_MEMBER:
            self._leave_generation(
                code, "the group began another generation before the assignment came"
            )
            return Reaction.GO_ON
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("a rebalance began before the assignment came")
            return Reaction.GO_ON
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._join_again("the coordinator was loading")
            return Reaction.WAIT
        if code in _COORDINATOR_ELSEWHERE:
            self._join_again("the coordinator moved before the assignment came")
            return Reaction.FIND_COORDINATOR
        raise self._failure(code, "get partitions")

    def _take_assignment(self, response: SyncGroupResponse) -> None:
        try:
            assignment = decode_assignment(response.assignment)
        except ParseError as error:
            self._leave_generation(ErrorCode.NONE, "the assignment cannot be read")
            raise ClientBrokenError(
                f"the leader sent an assignment that cannot be read: {error}"
            ) from error
        if response.protocol_name not in (None, self.protocol_name):
            raise self._failure(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "get partitions")
        self.assignment = assignment.partitions
        self._previous = assignment.partitions
        self._previous_generation_id = self.generation_id
        self._move(ClassicMemberState.ASSIGNED)
        self.assignor.on_assignment(
            Assignment(partitions=assignment.partitions, user_data=assignment.user_data),
            self.generation_id,
        )

    def on_response_lost(self) -> None:
        """JoinGroup or SyncGroup got no response: begin with JoinGroup again."""
        if self.state is ClassicMemberState.SYNCING:
            self._join_again("the response to SyncGroup was lost")

    def apply(self, owned: Iterable[TopicPartition], topics: frozenset[str]) -> AssignmentChange:
        """Apply the assignment; a cooperative member that loses partitions joins again.

        Partitions of topics that are not subscribed any more are left out.
        """
        everything = flattened(self.assignment)
        assigned = tuple(partition for partition in everything if partition.topic in topics)
        before, now = frozenset(owned), frozenset(assigned)
        change = AssignmentChange(
            assigned=assigned,
            revoked=tuple(sorted(before - now)),
            added=tuple(partition for partition in assigned if partition not in before),
        )
        self._move(ClassicMemberState.STABLE)
        if change.revoked and self.is_cooperative:
            self.request_rejoin("revoked partitions that another member is to get")
        if len(assigned) < len(everything):
            self.request_rejoin("the subscription has changed")
        return change

    # ---- being a member --------------------------------------------------------------------

    def heartbeat_request(self) -> HeartbeatRequest:
        """The heartbeat."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def on_error_code(self, error_code: int, sent_as: ConsumerGroupMetadata) -> Reaction:
        """Take the error code of a heartbeat or a commit that the member sent as `sent_as`.

        Raises: what joining again would not help against; the member is UNJOINED then.
        """
        code = known_code(error_code)
        if code is ErrorCode.NONE or sent_as != self.identity():
            return Reaction.GO_ON
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state in (ClassicMemberState.STABLE, ClassicMemberState.ASSIGNED):
                self.request_rejoin("the group is rebalancing")
            return Reaction.GO_ON
        if code in _FATAL_TO_MEMBER:
            # A member that is about to join learns it from that response.
            if self.state not in (ClassicMemberState.JOINING, ClassicMemberState.UNJOINED):
                self._leave_generation(code, "the group removed this member")
            return Reaction.GO_ON
        if code in _COORDINATOR_ELSEWHERE:
            return Reaction.FIND_COORDINATOR
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Reaction.WAIT
        raise self._failure(code, "stay a member")

    def leave_request(self, reason: str) -> LeaveGroupRequest:
        """LeaveGroup for this member."""
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.group_instance_id, reason=reason
        )
        return LeaveGroupRequest(
            group_id=self.group_id, member_id=self.member_id, members=[identity]
        )

    def on_left(self, reason: str) -> None:
        """The member has left: what it still owns is lost."""
        self._leave_generation(ErrorCode.UNKNOWN_MEMBER_ID, reason)

    # ---- shared ----------------------------------------------------------------------------

    def _move(self, state: ClassicMemberState) -> None:
        assert state in _MOVES[self.state], f"{self.state} -> {state}"
        self.state = state

    def _join_again(self, reason: str) -> None:
        self.request_rejoin(reason)
        self._move(ClassicMemberState.JOINING)

    def _leave_generation(self, code: ErrorCode, reason: str) -> None:
        """The generation is over; with ILLEGAL_GENERATION the member id is still good."""
        self.generation_id = NO_GENERATION
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self.is_leader = self.must_assign = False
        self.members = ()
        self.rejoin_reason = None
        self.request_rejoin(reason)
        self._move(ClassicMemberState.UNJOINED)

    def _failure(self, code: ErrorCode, what: str) -> BarnabasError:
        self._leave_generation(code, f"could not {what}: {code.name}")
        who = f" as {self.group_instance_id!r}" if self.group_instance_id is not None else ""
        return error_for(code, f"cannot {what} in group {self.group_id!r}{who}: {code.name}")

"""A member of a consumer group of KIP-848: what heartbeats carry and what responses mean.

Pure: no I/O, no clock. The shell around it is `consumer_membership.py`.

    UNJOINED       not in the group                                   -> JOINING
    JOINING        the heartbeat with epoch 0 is sent or to be sent   -> RECONCILING, STABLE, FENCED
    RECONCILING    the broker assigned other partitions: callbacks    -> ACKNOWLEDGING, FENCED
    ACKNOWLEDGING  a heartbeat with the owned partitions is due       -> STABLE, RECONCILING, FENCED
    STABLE         heartbeats                   -> RECONCILING, ACKNOWLEDGING, FENCED
    FENCED         fenced by the broker, or left for not polling: all is lost   -> JOINING

From everywhere to UNJOINED by leaving.

Source: KIP-848, CG-1 to CG-13. A member id is made by the client (version 1).
Invariants: partitions are revoked before the heartbeat that no longer lists them as owned; the
broker assigns them to others only after it. Outside of the group the member epoch is 0, and
everything that was assigned counts as lost. After an error, and on joining, a heartbeat carries all
fields; otherwise only those that have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_client.cluster.offsets import ConsumerGroupMetadata
from barnabas_client.consumer.group.rebalance_steps import AssignmentChange, Reaction
from barnabas_client.errors import error_for, known_code
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition, Uuid
from barnabas_protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2


class ConsumerMemberState(Enum):
    """How far the member is; the module's docstring has the moves."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"


_MOVES: Final = {
    ConsumerMemberState.UNJOINED: {ConsumerMemberState.JOINING},
    ConsumerMemberState.JOINING: {
        ConsumerMemberState.RECONCILING,
        ConsumerMemberState.STABLE,
        ConsumerMemberState.FENCED,
    },
    ConsumerMemberState.RECONCILING: {
        ConsumerMemberState.ACKNOWLEDGING,
        ConsumerMemberState.FENCED,
    },
    ConsumerMemberState.ACKNOWLEDGING: {
        ConsumerMemberState.STABLE,
        ConsumerMemberState.RECONCILING,
        ConsumerMemberState.FENCED,
    },
    ConsumerMemberState.STABLE: {
        ConsumerMemberState.RECONCILING,
        ConsumerMemberState.ACKNOWLEDGING,
        ConsumerMemberState.FENCED,
    },
    ConsumerMemberState.FENCED: {ConsumerMemberState.JOINING, ConsumerMemberState.FENCED},
}
# To a member, a group that is gone is one that does not know it; who joins makes it anew.
_FENCED: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_COORDINATOR_ELSEWHERE: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)

# Topic id -> partitions, sorted; topics without partitions are left out.
ById = dict[Uuid, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What the member subscribes to: topic names, or a pattern that the broker resolves."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How to get from the owned to the assigned partitions, as far as topic ids are known."""

    target: ById
    resolved: ById
    change: AssignmentChange
    is_complete: bool
    # Whether there is something to do before more topics have names.
    is_progress: bool


class ConsumerMember:
    """The state machine of one member of a consumer group."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        rebalance_timeout_ms: int,
        group_instance_id: str | None = None,
        rack_id: str | None = None,
        server_assignor: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.state = ConsumerMemberState.UNJOINED
        self.member_epoch = JOIN_EPOCH
        # Until the broker has sent one.
        self.heartbeat_interval_ms = 5000
        self.target: ById = {}
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._rack_id = rack_id
        self._server_assignor = server_assignor
        self.owned: ById = {}
        # What the last heartbeat carried; None: the next one carries all fields.
        self._sent_subscription: MemberSubscription | None = None
        self._sent_owned: ById | None = None

    # ---- what is due -----------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """Whether the broker has the member in the group."""
        return self.member_epoch > 0

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the broker expects heartbeats."""
        return self.state not in (ConsumerMemberState.UNJOINED, ConsumerMemberState.FENCED)

    def is_heartbeat_urgent(self, subscription: MemberSubscription) -> bool:
        """Whether a heartbeat must be sent before the interval is over."""
        if self.state is ConsumerMemberState.JOINING:
            return self._sent_subscription is None
        if self.state is ConsumerMemberState.ACKNOWLEDGING:
            return True
        return self.sends_heartbeats and self._sent_subscription not in (None, subscription)

    def identity(self) -> ConsumerGroupMetadata:
        """What a commit carries: member and epoch; -1 outside of the group."""
        return ConsumerGroupMetadata(
            self.group_id,
            self.member_epoch if self.is_member else -1,
            self.member_id if self.is_member else "",
            self.group_instance_id,
        )

    # ---- heartbeats ------------------------------------------------------------------------

    def join(self) -> None:
        """Join with the next heartbeat."""
        self._move(ConsumerMemberState.JOINING)
        self.member_epoch = JOIN_EPOCH
        self.owned = {}
        self.target = {}
        self.reset_sent_fields()

    def reset_sent_fields(self) -> None:
        """The last heartbeat may not have arrived: the next one carries all fields."""
        self._sent_subscription = None
        self._sent_owned = None

    def heartbeat_request(self, subscription: MemberSubscription) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: all fields, or those that have changed since the last."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=self.group_instance_id,
        )
        is_full = self._sent_subscription is None
        if is_full:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.rack_id = self._rack_id
            request.server_assignor = self._server_assignor
        if is_full or self._sent_subscription != subscription:
            # An empty list or pattern replaces what was there before.
            sent = self._sent_subscription
            had_pattern = sent is not None and sent.pattern is not None
            request.subscribed_topic_names = sorted(subscription.topics)
            request.subscribed_topic_regex = subscription.pattern or ("" if had_pattern else None)
        if self._sent_owned != self.owned or self.state is ConsumerMemberState.ACKNOWLEDGING:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in sorted(self.owned.items())
            ]
        self._sent_subscription = subscription
        self._sent_owned = self.owned
        return request

    def leave_request(self, *, is_for_good: bool) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that leaves; a static member that comes back gets its partitions again."""
        is_static = self.group_instance_id is not None and not is_for_good
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self.group_instance_id,
        )

    def on_heartbeat_response(
        self, response: ConsumerGroupHeartbeatResponse, sent_epoch: int
    ) -> Reaction:
        """Take the response to a heartbeat that was sent with `sent_epoch`.

        Raises: what joining again would not help against; the member is FENCED then.
        """
        if not self.sends_heartbeats or sent_epoch != self.member_epoch:
            return Reaction.GO_ON
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            self._accept(response)
            return Reaction.GO_ON
        self.reset_sent_fields()
        if code in _FENCED and (sent_epoch > 0 or code is not ErrorCode.GROUP_ID_NOT_FOUND):
            self.fence()
            return Reaction.GO_ON
        if code in _COORDINATOR_ELSEWHERE:
            return Reaction.FIND_COORDINATOR
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Reaction.WAIT
        self.fence()
        text = response.error_message or code.name
        raise error_for(code, f"cannot be a member of group {self.group_id!r}: {text}")

    def _accept(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.member_id = response.member_id or self.member_id
        self.member_epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.target = _by_id(response.assignment)
        if self.state is ConsumerMemberState.RECONCILING:
            return
        has_assignment = response.assignment is not None
        is_first = self.state is ConsumerMemberState.JOINING and has_assignment
        if self.target != self.owned or is_first:
            self._move(ConsumerMemberState.RECONCILING)
        elif has_assignment:
            # The broker may have assigned, in a response that was lost, what it now revokes: it
            # waits for a heartbeat that says that this member does not own it.
            if self.state is ConsumerMemberState.STABLE:
                self._move(ConsumerMemberState.ACKNOWLEDGING)
        elif self.state is not ConsumerMemberState.STABLE:
            self._move(ConsumerMemberState.STABLE)

    # ---- reconciling -----------------------------------------------------------------------

    def reconciliation(
        self, names: Mapping[Uuid, str], owned: Iterable[TopicPartition]
    ) -> Reconciliation:
        """The step towards the newest assignment; topics without a name wait.

        A topic that was deleted and created again has another id: all of it is revoked and added.
        """
        resolved = {
            topic_id: partitions
            for topic_id, partitions in self.target.items()
            if topic_id in names
        }
        assigned = tuple(
            TopicPartition(names[topic_id], number)
            for topic_id, partitions in resolved.items()
            for number in partitions
        )
        before = frozenset(owned)
        kept = before & {
            TopicPartition(names[topic_id], number)
            for topic_id, partitions in resolved.items()
            for number in partitions
            if number in self.owned.get(topic_id, ())
        }
        change = AssignmentChange(
            assigned=assigned,
            revoked=tuple(sorted(before - kept)),
            added=tuple(partition for partition in assigned if partition not in kept),
        )
        return Reconciliation(
            target=self.target,
            resolved=resolved,
            change=change,
            is_complete=len(resolved) == len(self.target),
            is_progress=resolved != self.owned or len(resolved) == len(self.target),
        )

    def on_reconciled(self, reconciliation: Reconciliation) -> None:
        """The callbacks have run: the next heartbeat carries what is owned now."""
        if self.state is not ConsumerMemberState.RECONCILING:
            return
        self.owned = reconciliation.resolved
        self._move(ConsumerMemberState.ACKNOWLEDGING)

    # ---- out -------------------------------------------------------------------------------

    def fence(self) -> None:
        """The group has removed this member: all that it had is lost."""
        self.member_epoch = JOIN_EPOCH
        self.owned = {}
        self.target = {}
        self._move(ConsumerMemberState.FENCED)

    def on_left(self) -> None:
        """The member has left the group."""
        self.member_epoch = JOIN_EPOCH
        self.owned = {}
        self.target = {}
        self.state = ConsumerMemberState.UNJOINED

    def _move(self, state: ConsumerMemberState) -> None:
        assert state in _MOVES[self.state], f"{self.state} -> {state}"
        self.state = state


def _by_id(assignment: Assignment) -> ById:
    return {
        topic.topic_id: tuple(sorted(topic.partitions))
        for topic in assignment.topic_partitions
        if topic.partitions
    }

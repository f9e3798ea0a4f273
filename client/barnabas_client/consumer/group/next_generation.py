"""A member of a group that the broker leads (KIP-848): what heartbeats say and what answers mean.

Pure: no I/O, no clock. The shell around it is `next_generation_membership.py`.

    UNJOINED       not in the group                                   -> JOINING
    JOINING        the heartbeat with epoch 0 is sent or to be sent   -> RECONCILING, STABLE, FENCED
    RECONCILING    the broker wants other partitions: callbacks       -> ACKNOWLEDGING, FENCED
    ACKNOWLEDGING  what is owned now is to be told at once            -> STABLE, RECONCILING, FENCED
    STABLE         heartbeats                   -> RECONCILING, ACKNOWLEDGING, FENCED
    FENCED         put out, or left for not polling: all is lost      -> JOINING

From everywhere to UNJOINED by leaving.

Source: KIP-848, section 20 of behaviour.md. A member id is made by the client (version 1).
Invariants: revoked partitions are given up before the heartbeat that says so; the broker gives
them to others only after it. Outside of the group the member epoch is 0, and everything that was
assigned counts as lost. After an error, and on joining, a heartbeat says everything; otherwise
only what has changed.
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


class NextGenerationState(Enum):
    """How far the member is; the module's docstring has the moves."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"


_MOVES: Final = {
    NextGenerationState.UNJOINED: {NextGenerationState.JOINING},
    NextGenerationState.JOINING: {
        NextGenerationState.RECONCILING,
        NextGenerationState.STABLE,
        NextGenerationState.FENCED,
    },
    NextGenerationState.RECONCILING: {
        NextGenerationState.ACKNOWLEDGING,
        NextGenerationState.FENCED,
    },
    NextGenerationState.ACKNOWLEDGING: {
        NextGenerationState.STABLE,
        NextGenerationState.RECONCILING,
        NextGenerationState.FENCED,
    },
    NextGenerationState.STABLE: {
        NextGenerationState.RECONCILING,
        NextGenerationState.ACKNOWLEDGING,
        NextGenerationState.FENCED,
    },
    NextGenerationState.FENCED: {NextGenerationState.JOINING, NextGenerationState.FENCED},
}
_PUT_OUT: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_COORDINATOR_ELSEWHERE: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)

# Topic id -> partitions, sorted; topics without partitions are left out.
ById = dict[Uuid, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the member subscribes to: names, or a pattern that the broker resolves."""

    topics: frozenset[str] = frozenset()
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The way from what is owned to what the broker wants, as far as topic ids are known."""

    target: ById
    resolved: ById
    change: AssignmentChange
    is_complete: bool
    # Whether there is something to do before more topics have names.
    is_progress: bool


class NextGenerationMember:
    """The member's own view of its group."""

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
        self.state = NextGenerationState.UNJOINED
        self.member_epoch = JOIN_EPOCH
        # As the broker says; until then joining is not repeated faster than errors allow.
        self.heartbeat_interval_ms = 5000
        self.target: ById = {}
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._rack_id = rack_id
        self._server_assignor = server_assignor
        self._owned: ById = {}
        # What the broker knows; None: it must be told everything.
        self._told_wish: Wish | None = None
        self._told_owned: ById | None = None

    # ---- what is due -----------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """Whether the broker has the member in the group."""
        return self.member_epoch > 0

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the broker waits to hear of this member."""
        return self.state not in (NextGenerationState.UNJOINED, NextGenerationState.FENCED)

    def has_news(self, wish: Wish) -> bool:
        """Whether the broker is to hear something at once."""
        if self.state is NextGenerationState.JOINING:
            return self._told_wish is None
        if self.state is NextGenerationState.ACKNOWLEDGING:
            return True
        return self.sends_heartbeats and self._told_wish is not None and self._told_wish != wish

    def identity(self) -> ConsumerGroupMetadata:
        """Who commits; an epoch of -1 outside of the group."""
        return ConsumerGroupMetadata(
            self.group_id,
            self.member_epoch if self.is_member else -1,
            self.member_id if self.is_member else "",
            self.group_instance_id,
        )

    # ---- heartbeats ------------------------------------------------------------------------

    def join(self) -> None:
        """Be a member from the next heartbeat on."""
        self._move(NextGenerationState.JOINING)
        self.member_epoch = JOIN_EPOCH
        self._owned = {}
        self.target = {}
        self.tell_everything()

    def tell_everything(self) -> None:
        """The last heartbeat may not have arrived: the next one leaves nothing out."""
        self._told_wish = None
        self._told_owned = None

    def heartbeat_request(self, wish: Wish) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat: all there is, or what has changed since the last."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch,
            instance_id=self.group_instance_id,
        )
        is_full = self._told_wish is None
        if is_full:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.rack_id = self._rack_id
            request.server_assignor = self._server_assignor
        if is_full or self._told_wish != wish:
            # An empty list or pattern takes back what was there before.
            had_pattern = self._told_wish is not None and self._told_wish.pattern is not None
            request.subscribed_topic_names = sorted(wish.topics)
            request.subscribed_topic_regex = wish.pattern or ("" if had_pattern else None)
        if self._told_owned != self._owned or self.state is NextGenerationState.ACKNOWLEDGING:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in sorted(self._owned.items())
            ]
        self._told_wish = wish
        self._told_owned = self._owned
        return request

    def leave_request(self, *, is_for_good: bool) -> ConsumerGroupHeartbeatRequest:
        """Say goodbye; a static member that comes back gets its partitions again."""
        is_static = self.group_instance_id is not None and not is_for_good
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH,
            instance_id=self.group_instance_id,
        )

    def heard(self, response: ConsumerGroupHeartbeatResponse, sent_epoch: int) -> Reaction:
        """Take the answer to a heartbeat that was sent with `sent_epoch`.

        Raises: what joining again would not help against; the member is FENCED then.
        """
        if not self.sends_heartbeats or sent_epoch != self.member_epoch:
            return Reaction.GO_ON
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            self._accept(response)
            return Reaction.GO_ON
        self.tell_everything()
        if code in _PUT_OUT:
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
        if self.state is NextGenerationState.RECONCILING:
            return
        is_told = response.assignment is not None
        is_first = self.state is NextGenerationState.JOINING and is_told
        if self.target != self._owned or is_first:
            self._move(NextGenerationState.RECONCILING)
        elif is_told:
            # The broker may have given, in an answer that was lost, what it now takes back: it
            # waits to hear that this member has not got it.
            if self.state is NextGenerationState.STABLE:
                self._move(NextGenerationState.ACKNOWLEDGING)
        elif self.state is not NextGenerationState.STABLE:
            self._move(NextGenerationState.STABLE)

    # ---- reconciling -----------------------------------------------------------------------

    def reconciliation(
        self, names: Mapping[Uuid, str], owned: Iterable[TopicPartition]
    ) -> Reconciliation:
        """What is to be done for the newest target; topics without a name wait.

        A topic that was deleted and made again has another id: all of it goes and comes.
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
            if number in self._owned.get(topic_id, ())
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
            is_progress=resolved != self._owned or len(resolved) == len(self.target),
        )

    def reconciled(self, reconciliation: Reconciliation) -> None:
        """The callbacks have run: the broker is told what is owned now."""
        if self.state is not NextGenerationState.RECONCILING:
            return
        self._owned = reconciliation.resolved
        self._move(NextGenerationState.ACKNOWLEDGING)

    # ---- out -------------------------------------------------------------------------------

    def fence(self) -> None:
        """The group goes on without this member: all that it had is lost."""
        self.member_epoch = JOIN_EPOCH
        self._owned = {}
        self.target = {}
        self._move(NextGenerationState.FENCED)

    def left(self) -> None:
        """The member is out by its own wish."""
        self.member_epoch = JOIN_EPOCH
        self._owned = {}
        self.target = {}
        self.state = NextGenerationState.UNJOINED

    def _move(self, state: NextGenerationState) -> None:
        assert state in _MOVES[self.state], f"{self.state} -> {state}"
        self.state = state


def _by_id(assignment: Assignment) -> ById:
    return {
        topic.topic_id: tuple(sorted(topic.partitions))
        for topic in assignment.topic_partitions
        if topic.partitions
    }

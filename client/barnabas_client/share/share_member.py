"""A member of a share group: what heartbeats carry and what responses mean.

Pure: no I/O, no clock. The shell around it is `share_membership.py`.

    UNJOINED   not in the group                                    -> JOINING
    JOINING    the heartbeat with epoch 0 is sent or to be sent    -> STABLE, FENCED
    STABLE     in the group; it has at once what it is assigned    -> JOINING, FENCED
    FENCED     refused, or left for not polling                    -> JOINING

From everywhere to UNJOINED by leaving.

Source: KIP-932; SHR-28. The client makes the member id, which stays the same when it joins again.
Invariants: outside of the group the member epoch is 0 and nothing is assigned. After an error, and
on joining, a heartbeat carries all fields; otherwise only those that have changed. Nothing is
revoked step by step: locks belong to the member, not to its assignment.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas_client.consumer.group.rebalance_steps import Reaction
from barnabas_client.errors import error_for, known_code
from barnabas_client.share.acquisition import TopicIdPartition
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class ShareMemberState(Enum):
    """How far the member is; the module's docstring has the moves."""

    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    FENCED = "fenced"


_MOVES: Final = {
    ShareMemberState.UNJOINED: {ShareMemberState.JOINING},
    ShareMemberState.JOINING: {
        ShareMemberState.JOINING,
        ShareMemberState.STABLE,
        ShareMemberState.FENCED,
    },
    ShareMemberState.STABLE: {
        ShareMemberState.STABLE,
        ShareMemberState.JOINING,
        ShareMemberState.FENCED,
    },
    ShareMemberState.FENCED: {ShareMemberState.JOINING, ShareMemberState.FENCED},
}
_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_COORDINATOR_ELSEWHERE: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class ShareMember:
    """The state machine of one member of a share group."""

    def __init__(self, group_id: str, member_id: str, *, rack_id: str | None = None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.state = ShareMemberState.UNJOINED
        self.member_epoch = JOIN_EPOCH
        # Until the broker has sent one.
        self.heartbeat_interval_ms = 5000
        self.assigned: frozenset[TopicIdPartition] = frozenset()
        self._rack_id = rack_id
        # What the last heartbeat carried; None: the next one carries all fields.
        self._sent_topics: frozenset[str] | None = None

    @property
    def is_member(self) -> bool:
        """Whether the broker has the member in the group."""
        return self.member_epoch > 0

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the broker expects heartbeats."""
        return self.state in (ShareMemberState.JOINING, ShareMemberState.STABLE)

    def is_heartbeat_urgent(self, topics: frozenset[str]) -> bool:
        """Whether a heartbeat must be sent before the interval is over."""
        if self.state is ShareMemberState.JOINING:
            return self._sent_topics is None
        return self.sends_heartbeats and self._sent_topics not in (None, topics)

    def join(self) -> None:
        """Join with the next heartbeat."""
        self._move(ShareMemberState.JOINING)
        self._lose_all()

    def reset_sent_fields(self) -> None:
        """The last heartbeat may not have arrived: the next one carries all fields."""
        self._sent_topics = None

    def heartbeat_request(self, topics: frozenset[str]) -> ShareGroupHeartbeatRequest:
        """The next heartbeat: all fields, or those that have changed since the last."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.member_epoch
        )
        if self._sent_topics is None:
            request.rack_id = self._rack_id
        if self._sent_topics != topics:
            request.subscribed_topic_names = sorted(topics)
        self._sent_topics = topics
        return request

    def leave_request(self) -> ShareGroupHeartbeatRequest:
        """The heartbeat that leaves the group."""
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )

    def on_heartbeat_response(
        self, response: ShareGroupHeartbeatResponse, sent_epoch: int
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
        if code in _FENCED:
            self.join()
            # Refused where it asked to join: not again at once.
            return Reaction.WAIT if sent_epoch == JOIN_EPOCH else Reaction.GO_ON
        if code in _COORDINATOR_ELSEWHERE:
            return Reaction.FIND_COORDINATOR
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Reaction.WAIT
        self.fence()
        text = response.error_message or code.name
        raise error_for(code, f"cannot be a member of share group {self.group_id!r}: {text}")

    def fence(self) -> None:
        """The member is out of the group until the program polls."""
        self._move(ShareMemberState.FENCED)
        self._lose_all()

    def on_left(self) -> None:
        """The member has left the group."""
        self.state = ShareMemberState.UNJOINED
        self._lose_all()

    def _accept(self, response: ShareGroupHeartbeatResponse) -> None:
        self.member_id = response.member_id or self.member_id
        self.member_epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.assigned = frozenset(
                TopicIdPartition(topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
        self._move(ShareMemberState.STABLE)

    def _lose_all(self) -> None:
        self.member_epoch = JOIN_EPOCH
        self.assigned = frozenset()
        self.reset_sent_fields()

    def _move(self, state: ShareMemberState) -> None:
        assert state in _MOVES[self.state], f"{self.state} -> {state}"
        self.state = state

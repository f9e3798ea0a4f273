"""The state machine of one classic group: states, members, votes; by GRP-1 to GRP-22.

Not here: requests and timers, which drive it (`rebalance.py`, `join.py`, `sync.py`).
Source: KIP-62, KIP-345, KIP-394 and the transition table of GRP-*.

    Empty               -> PreparingRebalance (a member joins), Dead (deleted, expired, unloaded)
    PreparingRebalance  -> CompletingRebalance (members rejoined), Empty (all left), Dead
    CompletingRebalance -> Stable (assignment persisted), PreparingRebalance, Dead
    Stable              -> PreparingRebalance, Dead
    Dead                -> nothing

Invariants: any other move is a bug and fails an assertion; the leader is a member, or there is
none; `awaiting_join_count` and `protocol_counts` agree with the members; a group without members
is Empty, PreparingRebalance or Dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from barnabas_broker.coordinator.group.group_memory import MEMBER_BYTES, GroupMemory
from barnabas_broker.coordinator.group.members import (
    ClassicMember,
    JoinReply,
    Protocols,
    SyncReply,
    join_error,
    metadata_size,
    remembered_size,
    sync_error,
)
from barnabas_broker.network.host_counts import owner_of
from barnabas_protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember


class GroupState(Enum):
    """The states under the names that clients and tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_MOVES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset((GroupState.PREPARING_REBALANCE, GroupState.DEAD)),
    GroupState.PREPARING_REBALANCE: frozenset(
        (GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD)
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        (GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD)
    ),
    GroupState.STABLE: frozenset((GroupState.PREPARING_REBALANCE, GroupState.DEAD)),
    GroupState.DEAD: frozenset(),
}


def pending_bytes(member_id: str) -> int:
    """Return what an id that was given out counts with."""
    return MEMBER_BYTES + len(member_id)


def _identity_bytes(member: ClassicMember) -> int:
    return MEMBER_BYTES + 2 * len(member.group_instance_id or "")


class ClassicGroup:
    """One group. Created Empty, without a protocol type."""

    __slots__ = (
        "assigned_generation_id",
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "is_in_initial_delay",
        "leader_id",
        "member_added_in_delay",
        "members",
        "memory",
        "metadata_bytes",
        "owner_host",
        "pending_member_ids",
        "pending_sync_ids",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_changed_ms",
        "static_member_ids",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, owner_host: str = "") -> None:
        self.group_id = group_id
        # From where it was made; empty for one that was loaded.
        self.owner_host = owner_of(owner_host)
        self.memory = GroupMemory(group_id, self.owner_host)
        # Of all protocols of all members.
        self.metadata_bytes = 0
        self.state = GroupState.EMPTY
        # Wall time of the last change of the state; -1 if it is not known (old record versions).
        self.state_changed_ms = -1
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        # The newest generation for which the leader's assignment went into the log: one each.
        self.assigned_generation_id = -1
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_member_ids: dict[str, str] = {}
        # Ids that were given out with MEMBER_ID_REQUIRED and have not joined yet.
        self.pending_member_ids: set[str] = set()
        self.pending_sync_ids: set[str] = set()
        self.protocol_counts: dict[str, int] = {}
        self.awaiting_join_count = 0
        # The first rebalance after Empty waits for more members, and longer if some came.
        self.is_in_initial_delay = False
        self.member_added_in_delay = False
        # None: not a consumer group, or the topics cannot be read from the metadata.
        self.subscribed_topics: frozenset[str] | None = None

    # ---- state ---------------------------------------------------------------------------------

    def transition(self, state: GroupState, wall_ms: int) -> None:
        """Move to another state; only moves of the table are legal."""
        assert state in LEGAL_MOVES[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_changed_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may start in this state."""
        return GroupState.PREPARING_REBALANCE in LEGAL_MOVES[self.state]

    @property
    def is_empty(self) -> bool:
        """Whether it is in state Empty; PreparingRebalance is not, even without members."""
        return self.state is GroupState.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout among the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        """Whether every member's join is parked and no given-out id is still expected."""
        return self.awaiting_join_count == len(self.members) and not self.pending_member_ids

    # ---- members -------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take a member in; the first one becomes leader and decides the protocol type."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.forget_pending(member.member_id)
        self.memory.change(_identity_bytes(member))
        if member.group_instance_id is not None:
            self.static_member_ids[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count_protocols(member.protocols, 1)
        if member.join_reply is not None:
            self.awaiting_join_count += 1

    def remove(self, member: ClassicMember) -> None:
        """Forget a member that has nothing parked; another one becomes leader."""
        assert not member.is_parked
        del self.members[member.member_id]
        self.memory.change(-_identity_bytes(member))
        self.pending_sync_ids.discard(member.member_id)
        if (
            member.group_instance_id is not None
            and self.static_member_ids.get(member.group_instance_id) == member.member_id
        ):
            del self.static_member_ids[member.group_instance_id]
        self._count_protocols(member.protocols, -1)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)

    def expect(self, member_id: str) -> None:
        """Remember an id that is given out, and has to join."""
        if member_id not in self.pending_member_ids:
            self.pending_member_ids.add(member_id)
            self.memory.change(pending_bytes(member_id))

    def forget_pending(self, member_id: str) -> None:
        """Expect a given-out id no more."""
        if member_id in self.pending_member_ids:
            self.pending_member_ids.remove(member_id)
            self.memory.change(-pending_bytes(member_id))

    def update(
        self,
        member: ClassicMember,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member's new join says."""
        self._count_protocols(member.protocols, -1)
        self._count_protocols(protocols, 1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def replace_static(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member another id; what the old id has parked is fenced (GRP-18)."""
        member = self.members[old_id]
        assert member.group_instance_id is not None
        self.answer_join(member, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.answer_sync(sync_error(ErrorCode.FENCED_INSTANCE_ID))
        was_pending_sync = old_id in self.pending_sync_ids
        self.pending_sync_ids.discard(old_id)
        # Keeps its place in the order of members, which assignors may depend on.
        self.members = {
            new_id if member_id == old_id else member_id: each
            for member_id, each in self.members.items()
        }
        member.member_id = new_id
        self.static_member_ids[member.group_instance_id] = new_id
        if was_pending_sync:
            self.pending_sync_ids.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def validate(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Return the member of that id.

        Raises: KafkaError 25 if it is unknown, 82 if another id took over its instance id.
        """
        if group_instance_id is not None:
            current_id = self.static_member_ids.get(group_instance_id)
            if current_id is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # ---- parked requests -----------------------------------------------------------------------

    def park_join(self, member: ClassicMember, reply: JoinReply) -> None:
        """Park a join; one that the member had parked before has to try again."""
        self.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join_reply = reply
        self.awaiting_join_count += 1

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> bool:
        """Answer a member's parked join, if there is one."""
        reply, member.join_reply = member.join_reply, None
        if reply is None:
            return False
        self.awaiting_join_count -= 1
        reply(response)
        return True

    def park_sync(self, member: ClassicMember, reply: SyncReply) -> None:
        """Park a sync; one that the member had parked before has to try again."""
        member.answer_sync(sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply

    def answer_all(self, code: ErrorCode) -> None:
        """Answer every parked join and sync with an error (OFS-4)."""
        for member in list(self.members.values()):
            self.answer_join(member, join_error(code, member.member_id))
            member.answer_sync(sync_error(code))

    def clear_assignments(self) -> None:
        """Forget what the leader assigned."""
        for member in self.members.values():
            member.assignment = b""

    # ---- protocols and generations ---------------------------------------------------------------

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can be in the group (GRP-3)."""
        names = tuple(names)
        if not protocol_type or not names:
            return False
        if self.state is GroupState.EMPTY:
            return True
        if protocol_type != self.protocol_type:
            return False
        return any(self.protocol_counts.get(name, 0) == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Return the protocol that wins the vote (GRP-8); of equal ones the first voted for."""
        size = len(self.members)
        candidates = {name for name, count in self.protocol_counts.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            assert choice is not None, f"{self.group_id}: no protocol that all members support"
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has rejoined; false if no member has (GRP-7)."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is not None and leader.join_reply is not None:
            return True
        for member in self.members.values():
            if member.join_reply is not None:
                self.leader_id = member.member_id
                return True
        return False

    def next_generation(self, wall_ms: int) -> None:
        """End PreparingRebalance: one generation more, with a protocol or without members."""
        self.generation_id = self.generation_id + 1 if self.generation_id < 2**31 - 1 else 1
        self.is_in_initial_delay = False
        self.pending_sync_ids.clear()
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.leader_id = None
            self.transition(GroupState.EMPTY, wall_ms)
        self.compute_subscribed_topics()

    def compute_subscribed_topics(self) -> None:
        """Read the members' topics; unknown unless all of them can be read."""
        self.subscribed_topics = None
        if self.protocol_type != PROTOCOL_TYPE:
            return
        topics: set[str] = set()
        if self.protocol_name is not None:
            for member in self.members.values():
                try:
                    subscription = decode_subscription(member.metadata(self.protocol_name))
                except ParseError:
                    return
                topics.update(subscription.topics)
        elif self.members:
            return
        self.subscribed_topics = frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic; true where that cannot be known."""
        if self.protocol_type != PROTOCOL_TYPE:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """Return what the leader gets: every member's metadata for the chosen protocol."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def _count_protocols(self, protocols: Protocols, change: int) -> None:
        self.metadata_bytes += change * metadata_size(protocols)
        self.memory.change(change * remembered_size(protocols))
        # A protocol that is listed twice by a member counts once.
        for name in {name for name, _ in protocols}:
            count = self.protocol_counts.get(name, 0) + change
            if count:
                self.protocol_counts[name] = count
            else:
                self.protocol_counts.pop(name, None)

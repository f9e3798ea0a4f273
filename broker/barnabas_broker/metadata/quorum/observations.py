"""What a node of the metadata log sees of the others: who was heard when, what the record says.

Not here: what follows from it (`timing`, `members_plan`). Times are of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas_broker.arbiter.arbiter import Leader, Stored
from barnabas_broker.arbiter.election import Expiry
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.quorum.members_plan import MemberSituation, is_leaving
from barnabas_broker.metadata.quorum.messages import RecordsResponse
from barnabas_broker.metadata.quorum.node import QuorumNode, Role
from barnabas_broker.metadata.quorum.timing import QuorumSettings, Situation
from barnabas_broker.metadata.quorum.voters import Voter


class Observations:
    """Collected by the shell; gone with a restart."""

    __slots__ = (
        "_clock",
        "_ends_when_fetched",
        "_expiry",
        "_settings",
        "_voter",
        "caught_up_ms",
        "fetched_ms",
        "heard_ms",
        "is_doubted",
        "is_expired",
        "leader_address",
        "leader_heard_ms",
        "leader_high_watermark",
        "role",
        "role_since_ms",
    )

    def __init__(self, voter: Voter, settings: QuorumSettings, clock: Clock) -> None:
        self._voter = voter
        self._settings = settings
        self._clock = clock
        self._expiry = Expiry(settings.time_to_live_ms)
        self.is_expired = False
        self.leader_address: Leader | None = None  # as the record has it
        self.is_doubted = False  # the leader did not answer the last request
        self.leader_high_watermark: tuple[int, int] | None = None  # controller epoch, offset
        # When the node last responded that this one follows or has followed just before it led.
        self.leader_heard_ms: dict[int, int] = {}
        self.role = Role.FOLLOWER
        self.role_since_ms = clock.monotonic_ms()
        self.heard_ms: dict[Voter, int] = {}  # fetches and promises, also of former roles
        # Of this leadership: the last fetch, when it last had all, and the log end at its fetch.
        self.fetched_ms: dict[Voter, int] = {}
        self.caught_up_ms: dict[Voter, int] = {}
        self._ends_when_fetched: dict[Voter, int] = {}

    def record_read(self, stored: Stored, *, is_obeyed: bool = True) -> None:
        """Note who leads by the record, and whether it is old (rule 8).

        A record that the node does not obey, as it has known a newer one, names nobody's address.
        """
        self.is_expired = self._expiry.observe(stored, self._clock.monotonic_ms())
        if not is_obeyed:
            return
        leader = None if stored.record is None else stored.record.leader
        if leader != self.leader_address:
            self.is_doubted = False
        if leader is not None and leader.node_id not in (
            self._voter.node_id,
            *self.leader_heard_ms,
        ):
            self.leader_heard_ms = {}
        self.leader_address = leader

    def heard(self, voter: Voter) -> None:
        """Note that a node has fetched or promised."""
        self.heard_ms[voter] = self._clock.monotonic_ms()

    def fetched(self, voter: Voter, end_offset: int, log_end_offset: int) -> None:
        """Note that a node has fetched what follows its end, and where this node's log ends.

        It had all there was at its fetch before if it now has what there was then (KIP-836).
        """
        now_ms = self._clock.monotonic_ms()
        if end_offset >= log_end_offset:
            self.caught_up_ms[voter] = now_ms
        elif end_offset >= self._ends_when_fetched.get(voter, log_end_offset):
            fetched_ms = self.fetched_ms[voter]
            self.caught_up_ms[voter] = max(self.caught_up_ms.get(voter, 0), fetched_ms)
        self.heard_ms[voter] = self.fetched_ms[voter] = now_ms
        self._ends_when_fetched[voter] = log_end_offset

    def responded(self, node_id: int, response: RecordsResponse) -> None:
        """Note that a node has responded, and what it knows to be committed."""
        self.is_doubted = False
        if self.role is Role.FOLLOWER:
            self.leader_heard_ms = {node_id: self._clock.monotonic_ms()}
        self.leader_high_watermark = (response.controller_epoch, response.high_watermark)

    def note_role(self, role: Role) -> None:
        """Note what the node has become."""
        if role is not self.role:
            if self.role is Role.LEADING:
                self.leader_heard_ms = {}
            for of_leadership in (self.fetched_ms, self.caught_up_ms, self._ends_when_fetched):
                of_leadership.clear()
            self.role, self.role_since_ms = role, self._clock.monotonic_ms()

    def situation(
        self,
        node: QuorumNode,
        *,
        refused_since_ms: Callable[[int], int | None],
        may_found: bool,
        is_waiting: bool,
    ) -> Situation:
        """What is known now."""
        now_ms, leader_id = self._clock.monotonic_ms(), node.record.leader_id
        is_other = leader_id is not None and leader_id != self._voter.node_id
        known = self.leader_high_watermark
        return Situation(
            now_ms=now_ms,
            voter=self._voter,
            role=node.role,
            record=node.record,
            is_expired=self.is_expired,
            refused_since_ms=refused_since_ms(leader_id)
            if is_other and leader_id is not None
            else None,
            is_doubted=self.is_doubted,
            is_behind=known is not None and known[1] > node.copy.log.log_end_offset,
            may_found=may_found,
            majority_heard_ms=self.majority_heard_ms(node, now_ms),
            role_since_ms=self.role_since_ms,
            is_waiting=is_waiting,
        )

    def majority_heard_ms(self, node: QuorumNode, now_ms: int) -> int:
        """When a majority was heard of each member set that must agree (rule 4)."""
        leadership = node.leadership
        configurations = (node.record.members,) if leadership is None else leadership.configurations
        return min(self._heard_by(members, now_ms) for members in configurations)

    def _heard_by(self, members: frozenset[Voter], now_ms: int) -> int:
        heard = [
            now_ms if voter == self._voter else self.heard_ms.get(voter, 0) for voter in members
        ]
        return sorted(heard, reverse=True)[len(heard) // 2] if heard else now_ms

    def member_situation(self, node: QuorumNode, image: MetadataImage) -> MemberSituation:
        """What a plan of the members is made from; for the leader."""
        assert node.leadership is not None
        leadership, high_watermark = node.leadership, node.copy.high_watermark
        return MemberSituation(
            now_ms=self._clock.monotonic_ms(),
            leader=self._voter,
            members=node.record.members,
            broker_ids=frozenset(image.brokers),
            heard_ms=self.heard_ms,
            leading_since_ms=self.role_since_ms,
            caught_up=frozenset(
                voter
                for voter in self.heard_ms
                if leadership.flushed_end_offset(voter) >= high_watermark
            ),
            members_max=self._settings.members_max,
            members_min=self._settings.members_min,
            member_lost_ms=self._settings.member_lost_ms,
            leaving_ids=frozenset(filter(partial(is_leaving, image), image.brokers)),
        )

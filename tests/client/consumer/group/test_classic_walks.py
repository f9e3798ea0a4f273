"""Random walks of whole groups: our members against the broker's own coordinator, step by step.

No loop, no clock: hypothesis draws which member does its next step, who falls silent, who leaves.
After every step no partition has two owners that the coordinator takes for members.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_broker.coordinator.group.context import RequestContext
from barnabas_client.consumer.assignors import GroupTopics, assignors_for
from barnabas_client.consumer.group.classic_member import (
    ClassicMember,
    ClassicMemberState,
    Revocation,
)
from barnabas_client.consumer.group.group_leader import group_assignments, group_members
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from tests.support.group_model import GroupModel, Ticket

TOPICS = frozenset({"t", "u"})
PICTURE = GroupTopics(partition_counts={"t": 4, "u": 3})
PARTITION_COUNT = 7
CONTEXT = RequestContext("client", "/127.0.0.1", 9)
SESSION_MS = 10_000


@dataclass
class Walker:
    """One member with what its shell would do, cut into single steps."""

    name: str
    member: ClassicMember
    owned: set[TopicPartition] = field(default_factory=set)
    ticket: Ticket | None = None
    given_up: Revocation | None = None
    is_gone: bool = False


class World:
    """A coordinator and its members."""

    def __init__(self, strategies: tuple[str, ...], count: int) -> None:
        self.model = GroupModel(session_timeout_ms_min=1)
        self.owners_by_generation: dict[tuple[int, TopicPartition], str] = {}
        self.walkers = [
            Walker(
                f"w{at}",
                ClassicMember(
                    "g",
                    assignors_for(strategies),
                    session_timeout_ms=SESSION_MS,
                    rebalance_timeout_ms=60_000,
                ),
            )
            for at in range(count)
        ]

    # ---- steps -----------------------------------------------------------------------------

    def step(self, walker: Walker) -> None:
        """What the program's poll, or the rebalance task, would do next."""
        if walker.is_gone:
            return
        member = walker.member
        match member.state:
            case ClassicMemberState.UNJOINED | ClassicMemberState.STABLE:
                if member.is_rebalance_due:
                    walker.given_up = member.begin_rebalance(sorted(walker.owned), TOPICS)
            case ClassicMemberState.PREPARING:
                given_up, walker.given_up = walker.given_up, None
                assert given_up is not None
                assert set(given_up.partitions) <= walker.owned
                # Lost if and only if the group went on without it.
                assert given_up.is_lost == (member.generation_id == -1)
                walker.owned -= set(given_up.partitions)
                member.on_revoked()
            case ClassicMemberState.JOINING:
                self._join(walker)
            case ClassicMemberState.SYNCING:
                self._sync(walker)
            case ClassicMemberState.ASSIGNED:
                self._apply(walker)
        self.check()

    def _join(self, walker: Walker) -> None:
        if walker.ticket is None:
            request = walker.member.join_request(TOPICS, walker.owned)
            ticket = walker.ticket = Ticket()
            self._run(lambda shard: shard.join(request, CONTEXT, self.model.now, ticket))
        elif not walker.ticket.is_parked:
            answer, walker.ticket = walker.ticket.response, None
            walker.member.on_join_response(answer)

    def _sync(self, walker: Walker) -> None:
        member = walker.member
        if walker.ticket is None:
            assignments: Any = ()
            if member.must_assign:
                members = group_members(member.members)
                assignments = group_assignments(member.assignor, members, PICTURE)
            request = member.sync_request(assignments)
            ticket = walker.ticket = Ticket()
            self._run(lambda shard: shard.members.sync(request, self.model.now, ticket))
        elif not walker.ticket.is_parked:
            answer, walker.ticket = walker.ticket.response, None
            member.on_sync_response(answer)

    def _apply(self, walker: Walker) -> None:
        change = walker.member.apply(walker.owned, TOPICS)
        assert set(change.revoked) <= walker.owned
        assert not set(change.added) & walker.owned
        walker.owned -= set(change.revoked)
        walker.owned |= set(change.added)
        assert walker.owned == set(change.assigned)
        for partition in change.assigned:
            key = (walker.member.generation_id, partition)
            assert self.owners_by_generation.setdefault(key, walker.name) == walker.name

    def heartbeat(self, walker: Walker) -> None:
        member = walker.member
        if walker.is_gone or not member.sends_heartbeats:
            return
        sent_as = member.identity()
        request = member.heartbeat_request()
        try:
            code = self.model.run(lambda shard, now: shard.members.heartbeat(request, now))
        except KafkaError as error:
            member.on_error_code(error.code, sent_as)
        else:
            member.on_error_code(code.error_code, sent_as)
        self.check()

    def leave(self, walker: Walker) -> None:
        """Leave; the program stays away until the end."""
        if walker.member.member_id and not walker.is_gone:
            self.model.leave_many((walker.member.member_id, None))
        walker.member.on_left("test")
        walker.owned.clear()
        walker.ticket = walker.given_up = None
        walker.is_gone = True
        self.check()

    def lose_answer(self, walker: Walker) -> None:
        """The connection breaks while a request is parked."""
        if walker.ticket is not None:
            walker.ticket = None
            walker.member.on_response_lost()

    def pass_time(self, duration_ms: int) -> None:
        self.model.advance(duration_ms)
        self.check()

    def _run(self, command: Any) -> None:
        self.model._run(lambda: command(self.model.shard))

    # ---- what must hold --------------------------------------------------------------------

    def check(self) -> None:
        """Two owners only if the coordinator has put the first one out of the group."""
        group = self.model.shard.groups.get("g")
        known = set() if group is None else set(group.members)
        owners: dict[TopicPartition, Walker] = {}
        for walker in self.walkers:
            # Lost, and about to be told so.
            if walker.member.member_id not in known or walker.member.generation_id == -1:
                continue
            for partition in walker.owned:
                assert partition not in owners, (
                    f"{partition}: {walker.name} and {owners[partition].name}"
                )
                owners[partition] = walker

    def settle(self) -> None:
        """Everybody does all there is to do: the group must come to rest, with all shared out."""
        for _ in range(400):
            for walker in self.walkers:
                walker.is_gone = False
                self.step(walker)
                self.heartbeat(walker)
            self.pass_time(100)
            # Ids whose owners never learnt of them last until their sessions are over.
            group = self.model.shard.groups.get("g")
            count = 0 if group is None else len(group.members)
            is_at_rest = count == len(self.walkers) and self.model.state() == "Stable"
            if is_at_rest and all(
                walker.member.state is ClassicMemberState.STABLE
                and not walker.member.is_rebalance_due
                for walker in self.walkers
            ):
                break
        else:
            pytest.fail(f"no rest: {[(w.name, w.member.state) for w in self.walkers]}")
        shares = [len(walker.owned) for walker in self.walkers]
        assert sum(shares) == PARTITION_COUNT
        generations = {walker.member.generation_id for walker in self.walkers}
        assert len(generations) == 1


CHOICES = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)


@pytest.mark.parametrize("strategies", CHOICES, ids="+".join)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_no_partition_ever_has_two_owners(strategies: tuple[str, ...], seed: int) -> None:
    """CON-11, GRP-13, GRP-16, KIP-429; whatever happened, the group settles in the end."""
    source = random.Random(seed)
    world = World(strategies, source.randint(1, 4))
    for _ in range(150):
        walker = source.choice(world.walkers)
        what = source.random()
        if what < 0.68:
            world.step(walker)
        elif what < 0.9:
            world.heartbeat(walker)
        elif what < 0.95:
            world.pass_time(source.choice((10, 1000, SESSION_MS // 2, SESSION_MS + 1)))
        elif what < 0.97:
            world.lose_answer(walker)
        elif what < 0.985:
            world.leave(walker)
        else:
            walker.is_gone = not walker.is_gone
    world.settle()


def test_errors_of_the_model_reach_the_member() -> None:
    """The walk means something only if members do fall out of groups."""
    world = World(("range",), 2)
    world.settle()
    world.pass_time(SESSION_MS + 1)
    for walker in world.walkers:
        world.heartbeat(walker)
        assert walker.member.state is ClassicMemberState.UNJOINED
    assert world.model.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    world.settle()

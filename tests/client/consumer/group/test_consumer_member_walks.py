"""Random walks of groups of KIP-848, against a small model of their coordinator."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_client.consumer.group.consumer_member import (
    ConsumerMember,
    ConsumerMemberState,
    MemberSubscription,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.client.consumer.group.consumer_group_model import (
    COUNTS,
    TOPIC_IDS,
    ConsumerGroupModel,
)

NAMES = {topic_id: name for name, topic_id in TOPIC_IDS.items()}


@dataclass
class Walker:
    member: ConsumerMember
    subscription: MemberSubscription
    owned: set[TopicPartition] = field(default_factory=set)
    is_silent: bool = False


class World:
    def __init__(self, source: random.Random, count: int) -> None:
        self.model = ConsumerGroupModel()
        self.source = source
        self.walkers = [
            Walker(
                ConsumerMember("g", f"w{at}", rebalance_timeout_ms=1000), self.random_subscription()
            )
            for at in range(count)
        ]

    def random_subscription(self) -> MemberSubscription:
        return MemberSubscription(
            topics=frozenset(self.source.sample(list(COUNTS), self.source.randint(1, 2)))
        )

    def heartbeat(self, walker: Walker, *, is_lost: bool = False) -> None:
        """Send one; the answer may be lost, or the coordinator loading."""
        member = walker.member
        if not member.sends_heartbeats or walker.is_silent:
            return
        epoch = member.member_epoch
        request = member.heartbeat_request(walker.subscription)
        if is_lost:
            if self.source.random() < 0.5:
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                member.on_heartbeat_response(ConsumerGroupHeartbeatResponse(error_code=code), epoch)
            else:
                self.model.heartbeat(request)
                member.reset_sent_fields()
        else:
            member.on_heartbeat_response(self.model.heartbeat(request), epoch)
        self.check()

    def poll(self, walker: Walker) -> None:
        """What the program's poll does."""
        member = walker.member
        if walker.is_silent:
            return
        match member.state:
            case ConsumerMemberState.UNJOINED:
                member.join()
            case ConsumerMemberState.FENCED:
                walker.owned.clear()
                member.join()
            case ConsumerMemberState.RECONCILING:
                names = NAMES if self.source.random() < 0.8 else {}
                plan = member.reconciliation(names, walker.owned)
                if plan.is_progress:
                    assert set(plan.change.revoked) <= walker.owned
                    assert not set(plan.change.added) & walker.owned
                    walker.owned = set(plan.change.assigned)
                    member.on_reconciled(plan)
        self.check()

    def leave(self, walker: Walker) -> None:
        if walker.member.is_member and not walker.is_silent:
            walker.owned.clear()
            self.model.heartbeat(walker.member.leave_request(is_for_good=True))
            walker.member.on_left()
        self.check()

    def check(self) -> None:
        """No partition has two owners that the coordinator takes for members."""
        owners: dict[TopicPartition, str] = {}
        for walker in self.walkers:
            member = walker.member
            known = self.model.members.get(member.member_id)
            if known is None or not member.is_member or known.epoch < member.member_epoch:
                continue
            for partition in walker.owned:
                assert owners.setdefault(partition, member.member_id) == member.member_id

    def settle(self) -> None:
        for _ in range(60):
            for walker in self.walkers:
                walker.is_silent = False
                self.poll(walker)
                self.heartbeat(walker)
            self.model.pass_time(100)
        wanted = {
            TopicPartition(topic, number)
            for walker in self.walkers
            for topic in walker.subscription.topics
            for number in range(COUNTS[topic])
        }
        states = [walker.member.state for walker in self.walkers]
        assert states == [ConsumerMemberState.STABLE] * len(states)
        shares = [partition for walker in self.walkers for partition in walker.owned]
        assert sorted(shares) == sorted(wanted)
        for walker in self.walkers:
            assert {partition.topic for partition in walker.owned} <= walker.subscription.topics


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None)
def test_no_partition_ever_has_two_owners(seed: int) -> None:
    """CG-3, CG-4: with lost answers, expired sessions, changed wishes; in the end all is shared."""
    source = random.Random(seed)
    world = World(source, source.randint(1, 4))
    for _ in range(120):
        walker = source.choice(world.walkers)
        what = source.random()
        if what < 0.4:
            world.poll(walker)
        elif what < 0.8:
            world.heartbeat(walker, is_lost=source.random() < 0.1)
        elif what < 0.9:
            world.model.pass_time(source.choice((100, 3000, 10_001)))
        elif what < 0.94:
            walker.subscription = world.random_subscription()
        elif what < 0.97:
            walker.is_silent = not walker.is_silent
        else:
            world.leave(walker)
    world.settle()


def test_the_model_refuses_a_member_that_keeps_what_it_was_to_give_up() -> None:
    """The walk means something only if the model looks."""
    world = World(random.Random(1), 2)
    for walker in world.walkers:
        walker.subscription = MemberSubscription(topics=frozenset({"t"}))
    world.settle()
    first = world.walkers[0]
    first.member.owned = {TOPIC_IDS["t"]: (0, 1, 2, 3)}
    with pytest.raises(AssertionError, match="not given"):
        world.heartbeat(first)

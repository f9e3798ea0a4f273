"""What each assignor promises, on random groups; Java's own results are in tests/interop."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas_client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupMember,
    GroupTopics,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    assignors_for,
    flattened,
)
from barnabas_client.consumer.assignors.previous_owners import (
    Claim,
    decode_sticky_user_data,
    encode_sticky_user_data,
)
from barnabas_client.errors import ConfigurationError
from barnabas_protocol.consumer_protocol import Assignment, Subscription
from tests.client.consumer.assignors.cases import (
    after,
    check_complete,
    kept_count,
    loads,
    random_members,
    random_topics,
    settled,
    unevenness,
)

ALL = (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
STICKY = (StickyAssignor, CooperativeStickyAssignor)


def member(member_id: str, *topics: str, **fields: object) -> GroupMember:
    return GroupMember(
        member_id=member_id,
        subscription=Subscription(topics=topics, **fields),  # type: ignore[arg-type]
    )


def given_to(assignments: Mapping[str, Assignment]) -> dict[str, str]:
    """The assignments as text, for literal comparisons."""
    return {
        member_id: " ".join(f"{topic}{number}" for topic, number in flattened(a.partitions))
        for member_id, a in assignments.items()
    }


def test_range_gives_the_first_members_what_does_not_divide() -> None:
    """Kafka's own example: two topics of three partitions, two members (CON-11)."""
    topics = GroupTopics(partition_counts={"t": 3, "u": 3})
    members = [member("B", "t", "u"), member("A", "u", "t")]
    assigned = RangeAssignor().assign(members, topics)
    assert assigned["A"].partitions == {"t": (0, 1), "u": (0, 1)}
    assert assigned["B"].partitions == {"t": (2,), "u": (2,)}


def test_range_takes_what_is_near_and_keeps_topics_lined_up() -> None:
    """KIP-881: as many partitions as without racks, on the members' own racks where possible."""
    racks = [frozenset("b"), frozenset("a"), frozenset("b"), frozenset("a")]
    topics = GroupTopics(partition_counts={"t": 4, "u": 4}, racks={"t": racks, "u": racks})
    members = [member("A", "t", "u", rack_id="a"), member("B", "t", "u", rack_id="b")]
    assigned = RangeAssignor().assign(members, topics)
    assert assigned["A"].partitions == {"t": (1, 3), "u": (1, 3)}
    assert assigned["B"].partitions == {"t": (0, 2), "u": (0, 2)}


def test_round_robin_passes_over_members_that_do_not_want_the_topic() -> None:
    """The example of Kafka's RoundRobinAssignor with different subscriptions."""
    topics = GroupTopics(partition_counts={"t": 1, "u": 2, "v": 3})
    members = [member("A", "t"), member("B", "t", "u"), member("C", "t", "u", "v")]
    assert given_to(RoundRobinAssignor().assign(members, topics)) == {
        "A": "t0",
        "B": "u0",
        "C": "u1 v0 v1 v2",
    }


def test_sticky_is_even_where_round_robin_is_not() -> None:
    """The example of Kafka's StickyAssignor with different subscriptions."""
    topics = GroupTopics(partition_counts={"t": 1, "u": 2, "v": 3})
    members = [member("A", "t"), member("B", "t", "u"), member("C", "t", "u", "v")]
    assert given_to(StickyAssignor().assign(members, topics)) == {
        "A": "t0",
        "B": "u0 u1",
        "C": "v0 v1 v2",
    }


def test_static_members_are_ordered_by_their_instance() -> None:
    """A restart gives another member id and must not move partitions (KIP-345)."""
    topics = GroupTopics(partition_counts={"t": 2})
    for ids in (("m1", "m2"), ("m2", "m1")):
        members = [
            GroupMember(
                member_id=member_id,
                group_instance_id=instance_id,
                subscription=Subscription(topics=("t",)),
            )
            for member_id, instance_id in zip(ids, ("first", "second"), strict=True)
        ]
        for assignor in (RangeAssignor(), RoundRobinAssignor()):
            assert assignor.assign(members, topics)[ids[0]].partitions == {"t": (0,)}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_every_partition_has_one_owner_that_wants_it(kind: type[Assignor], seed: int) -> None:
    """GRP-22: whoever gets nothing has an empty assignment all the same."""
    source = random.Random(seed)
    topics = random_topics(source, has_racks=source.random() < 0.5)
    members = random_members(source, topics, is_equal=source.random() < 0.5, has_racks=True)
    assignor = kind()
    assignments = settled(assignor, members, topics)
    check_complete(members, topics, assignments)
    changed = random_members(source, topics, has_racks=True)
    known = after(assignor, changed, assignments, 1)
    check_complete(known, topics, settled(assignor, known, topics, 1))


@pytest.mark.parametrize("kind", STICKY, ids=lambda kind: kind.name)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_sticky_ones_move_no_more_than_evenness_asks_for(kind: type[Assignor], seed: int) -> None:
    """With equal subscriptions: loads differ by one at most, and each member keeps its share."""
    source = random.Random(seed)
    assignor = kind()
    topics = random_topics(source)
    before = random_members(source, topics, is_equal=True)
    first = settled(assignor, before, topics)
    joined = [member(f"new-{at}", *before[0].subscription.topics) for at in range(3)]
    now = source.sample(before, source.randint(1, len(before))) + joined[: source.randint(0, 3)]
    known = after(assignor, now, first, 1)
    second = settled(assignor, known, topics, 1)
    shares = sorted(loads(second).values())
    assert shares[-1] - shares[0] <= 1
    had = loads(first)
    least, extras = divmod(sum(shares), len(shares))
    owned = [had.get(member.member_id, 0) for member in now]
    most = sum(min(count, least) for count in owned)
    most += min(extras, sum(count > least for count in owned))
    assert kept_count(first, second) == most
    # Nothing has changed any more: nothing moves.
    third = settled(assignor, after(assignor, known, second, 2), topics, 2)
    assert third == second


@pytest.mark.parametrize("kind", STICKY, ids=lambda kind: kind.name)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_nobody_could_take_from_one_that_has_two_more(kind: type[Assignor], seed: int) -> None:
    """What Kafka promises of the sticky assignors for different subscriptions."""
    source = random.Random(seed)
    assignor = kind()
    topics = random_topics(source)
    members = random_members(source, topics)
    first = settled(assignor, members, topics)
    changed = random_members(source, topics)
    known = after(assignor, changed, first, 1)
    second = settled(assignor, known, topics, 1)
    for assignments, group in ((first, members), (second, known)):
        load = loads(assignments)
        for giver in group:
            for topic in assignments[giver.member_id].partitions:
                for taker in group:
                    if topic in taker.subscription.topics:
                        assert load[giver.member_id] - load[taker.member_id] <= 1
    stable = settled(assignor, after(assignor, known, second, 2), topics, 2)
    assert unevenness(stable) == unevenness(second)
    assert stable == second


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_cooperative_never_gives_what_another_member_still_owns(seed: int) -> None:
    """KIP-429: a partition is given away in the rebalance after the one that takes it."""
    source = random.Random(seed)
    assignor = CooperativeStickyAssignor()
    topics = random_topics(source)
    first = settled(assignor, random_members(source, topics), topics)
    known = after(assignor, random_members(source, topics), first, 1)
    second = assignor.assign(known, topics)
    owned = {
        partition: member.member_id
        for member in known
        for partition in flattened(member.subscription.owned_partitions)
    }
    for member_id, assignment in second.items():
        for partition in flattened(assignment.partitions):
            assert owned.get(partition, member_id) == member_id


def test_the_higher_generation_is_right_and_within_one_nobody_is() -> None:
    """KIP-341: a member that comes back after a long pause claims what others own by now."""
    topics = GroupTopics(partition_counts={"t": 2})

    def claiming(member_id: str, generation_id: int, *numbers: int) -> GroupMember:
        claim = Claim(partitions={"t": numbers}, generation_id=generation_id)
        return member(member_id, "t", user_data=encode_sticky_user_data(claim))

    late = [claiming("A", 3, 0, 1), claiming("B", 5, 0)]
    assert given_to(StickyAssignor().assign(late, topics)) == {"A": "t1", "B": "t0"}
    both = [
        member("A", "t", owned_partitions={"t": (0,)}, generation_id=5),
        member("B", "t", owned_partitions={"t": (0, 1)}, generation_id=5),
    ]
    assert given_to(CooperativeStickyAssignor().assign(both, topics)) == {"A": "", "B": "t1"}


@given(
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 99), max_size=4).map(tuple)),
    st.integers(-1, 1 << 30),
    st.binary(max_size=40),
)
def test_user_data_comes_back_and_rubbish_claims_nothing(
    partitions: dict[str, tuple[int, ...]], generation_id: int, rubbish: bytes
) -> None:
    claim = Claim(partitions=partitions, generation_id=generation_id)
    encoded = encode_sticky_user_data(claim)
    assert decode_sticky_user_data(encoded) == claim
    # Before KIP-341 there was no generation.
    assert decode_sticky_user_data(encoded[:-4]) == Claim(partitions=partitions)
    decode_sticky_user_data(rubbish)
    assert decode_sticky_user_data(b"\x00\x00\x00\x09") == Claim(partitions={})


def test_a_hundred_members_share_ten_thousand_partitions() -> None:
    """The size that the client is made for."""
    topics = GroupTopics(partition_counts={f"t{at}": 10 for at in range(1000)})
    members = [member(f"m{at:03}", *topics.partition_counts) for at in range(100)]
    for kind in ALL:
        check_complete(members, topics, settled(kind(), members, topics))


def test_names_stand_for_assignors_and_the_nearest_is_told() -> None:
    """Java's class names are understood, so that a configuration can be shared."""
    chosen = assignors_for(["org.apache.kafka.clients.consumer.StickyAssignor", RangeAssignor()])
    assert [assignor.name for assignor in chosen] == ["sticky", "range"]
    with pytest.raises(ConfigurationError, match="did you mean 'roundrobin'"):
        assignors_for(["round-robin"])
    with pytest.raises(ConfigurationError, match="twice"):
        assignors_for(["range", "range"])
    with pytest.raises(ConfigurationError, match="no assignor"):
        assignors_for([])

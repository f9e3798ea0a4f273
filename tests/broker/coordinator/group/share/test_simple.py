"""The assignor `simple`: what it promises, for drawn groups. Source: SHR-31."""

import random
from collections import Counter

import pytest

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment, MemberSpec
from barnabas_broker.coordinator.group.share import simple

T, U = b"t" * 16, b"u" * 16
Partitions = dict[bytes, list[int]]


def again(
    assigned: dict[str, Assignment], subscriptions: dict[str, frozenset[bytes]]
) -> dict[str, MemberSpec]:
    return {
        member_id: MemberSpec(topic_ids=topic_ids, assigned=assigned.get(member_id, {}))
        for member_id, topic_ids in subscriptions.items()
    }


def fresh(count: int, *topic_ids: bytes) -> dict[str, frozenset[bytes]]:
    return {f"m{index:03}": frozenset(topic_ids) for index in range(count)}


def sizes(assigned: dict[str, Assignment]) -> list[int]:
    return [sum(map(len, each.values())) for each in assigned.values()]


def owners(assigned: dict[str, Assignment]) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic_id, partition)
        for each in assigned.values()
        for topic_id, partitions in each.items()
        for partition in partitions
    )


@pytest.mark.parametrize(
    ("member_count", "partition_count", "expected"),
    [
        (1, 3, [3]),
        (2, 3, [2, 1]),
        (3, 3, [1, 1, 1]),
        (4, 3, [2, 1, 2, 1]),
        (5, 2, [2, 1, 1, 1, 1]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_sizes_are_those_of_the_rule(
    member_count: int, partition_count: int, expected: list[int]
) -> None:
    """SHR-31: s = ceil(M / P); member i gets ceil(d(i + 1)) - ceil(d i) of d = s P / M."""
    members = again({}, fresh(member_count, T))
    assigned = simple.assign(members, {T: list(range(partition_count))})
    assert sizes(assigned) == expected


def draw(rng: random.Random, topics: int) -> Partitions:
    return {
        bytes([topic]) * 16: sorted(rng.sample(range(40), rng.randint(1, 12)))
        for topic in range(topics)
    }


@pytest.mark.parametrize("seed", range(40))
def test_equal_subscriptions_are_balanced_and_settled(seed: int) -> None:
    """SHR-31: all owned, nobody idle, sizes and owner counts within one; it moves nothing."""
    rng = random.Random(seed)
    assigned: dict[str, Assignment] = {}
    for _ in range(6):
        partitions = draw(rng, rng.randint(1, 3))
        subscriptions = fresh(rng.randint(1, 30), *partitions)
        for member_id in rng.sample(sorted(subscriptions), rng.randint(0, 5) % len(subscriptions)):
            del subscriptions[member_id]
        assigned = simple.assign(again(assigned, subscriptions), partitions)
        counts = owners(assigned)
        assert set(counts) == {(key, each) for key, list_ in partitions.items() for each in list_}
        assert max(counts.values()) == min(counts.values()), f"seed {seed}"
        assert max(sizes(assigned)) - min(sizes(assigned)) <= 1, f"seed {seed}"
        assert min(sizes(assigned)) > 0
        assert simple.assign(again(assigned, subscriptions), partitions) == assigned


@pytest.mark.parametrize("seed", range(40))
def test_different_subscriptions_are_served_and_settled(seed: int) -> None:
    """SHR-31: each partition has a subscriber, each subscriber a partition; it moves nothing."""
    rng = random.Random(seed)
    assigned: dict[str, Assignment] = {}
    for _ in range(4):
        partitions = draw(rng, 4)
        subscriptions = {
            member_id: frozenset(rng.sample(sorted(partitions), rng.randint(1, 4)))
            for member_id in fresh(rng.randint(1, 20))
        }
        assigned = simple.assign(again(assigned, subscriptions), partitions)
        wanted = {topic_id for each in subscriptions.values() for topic_id in each}
        assert set(owners(assigned)) == {(key, each) for key in wanted for each in partitions[key]}
        for member_id, topic_ids in subscriptions.items():
            assert set(assigned[member_id]) <= topic_ids
            assert assigned[member_id]
        assert simple.assign(again(assigned, subscriptions), partitions) == assigned


def test_subscriptions_that_are_too_many_to_weigh_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHR-31: each partition has one owner, a subscriber; members may be idle, nothing moves."""
    monkeypatch.setattr(simple, "SUBSCRIBERS_MAX", 20)
    rng = random.Random(5)
    partitions = draw(rng, 6)
    subscriptions = {
        member_id: frozenset(rng.sample(sorted(partitions), rng.randint(1, 6)))
        for member_id in fresh(30)
    }
    assigned = simple.assign(again({}, subscriptions), partitions)
    counts = owners(assigned)
    assert set(counts) == {(key, each) for key, those in partitions.items() for each in those}
    assert set(counts.values()) == {1}
    assert all(set(assigned[each]) <= topic_ids for each, topic_ids in subscriptions.items())
    assert simple.assign(again(assigned, subscriptions), partitions) == assigned


def test_what_a_member_has_is_kept() -> None:
    """SHR-31: a new member takes from those who have too much, and nothing else moves."""
    partitions = {T: list(range(6))}
    before = simple.assign(again({}, fresh(2, T)), partitions)
    after = simple.assign(again(before, fresh(3, T)), partitions)
    for member_id in before:
        assert after[member_id][T] <= before[member_id][T]


def test_one_that_gets_more_is_not_the_same_for_every_topic() -> None:
    """SHR-31: with different subscriptions, sets of topics have orders of their own."""
    topics = [bytes(15) + bytes([index]) for index in range(8)]
    partitions = {topic_id: [0, 1, 2] for topic_id in topics}
    subscriptions = fresh(2, *topics)
    subscriptions["other"] = frozenset((T,))
    assigned = simple.assign(again({}, subscriptions), {**partitions, T: [0]})
    assert sizes(assigned) == [12, 12, 1]


def test_places_that_are_left_are_exchanged() -> None:
    """SHR-31: one that has all that is free already takes another one's, who takes that."""
    zero = frozenset((0,))
    has: dict[str, Assignment] = {"m001": {T: zero}, "m002": {T: zero}}
    assigned = simple.assign(again(has, fresh(3, T, U)), {T: [0], U: [0]})
    assert assigned == {"m000": {T: zero, U: zero}, "m001": {U: zero}, "m002": {T: zero}}


def test_nothing_to_share_is_nothing() -> None:
    """SHR-31: topics without initialized partitions, and no members."""
    assert simple.assign(again({}, fresh(2, T)), {T: []}) == {"m000": {}, "m001": {}}
    assert simple.assign({}, {}) == {}

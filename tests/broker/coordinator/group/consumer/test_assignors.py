"""The assignors against results that Kafka's own gave, and against what they promise.

`kafka_assignments.json` has the results of `UniformAssignor` and `RangeAssignor` of Kafka 4.1.1 for
drawn groups: fresh ones, and what became of them as members came and went, topics grew and
subscriptions changed. Topics and partitions were put into Java's collections in ascending order.
"""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
)
from barnabas_broker.coordinator.group.consumer.assignors.hash_order import (
    members_in_order,
    uuid_hash,
)
from barnabas_broker.coordinator.group.consumer.targets import ASSIGNORS

CASES = json.loads((Path(__file__).parent / "kafka_assignments.json").read_text("utf-8"))
T, U = b"t" * 16, b"u" * 16


def named(assigned: dict[str, Assignment]) -> dict[str, dict[str, list[int]]]:
    return {
        member_id: {
            topic_id.hex(): sorted(partitions)
            for topic_id, partitions in each.items()
            if partitions
        }
        for member_id, each in assigned.items()
    }


def spec_of(case: dict[str, Any]) -> GroupSpec:
    return GroupSpec(
        members={
            member_id: MemberSpec(
                topic_ids=frozenset(map(bytes.fromhex, topics)),
                assigned={bytes.fromhex(key): frozenset(each) for key, each in assigned.items()},
                instance_id=instance_id,
            )
            for member_id, instance_id, topics, assigned in case["members"]
        },
        partition_counts={bytes.fromhex(topic_id): count for topic_id, count in case["topics"]},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["assignor"])
def test_the_result_is_kafkas(case: dict[str, Any]) -> None:
    """CG-10 to CG-12: partition by partition."""
    assigned = named(ASSIGNORS[case["assignor"]](spec_of(case)))
    assert {key: assigned.get(key, {}) for key in case["kafka"]} == case["kafka"]


def fresh(*member_ids: str, count: int = 7) -> GroupSpec:
    members = {each: MemberSpec(topic_ids=frozenset([T])) for each in member_ids}
    return GroupSpec(members=members, partition_counts={T: count})


def test_range_gives_contiguous_parts() -> None:
    """CG-10: the golden example."""
    assigned = named(ASSIGNORS["range"](fresh("C", "B", "A")))
    parts = {key: each[T.hex()] for key, each in assigned.items()}
    assert parts == {"A": [0, 1, 2], "B": [3, 4], "C": [5, 6]}


def test_uniform_moves_one_partition_to_a_fourth_member() -> None:
    """CG-11: the golden example."""
    before = ASSIGNORS["uniform"](fresh("A", "B", "C"))
    parts = {key: each[T.hex()] for key, each in named(before).items()}
    assert parts == {"A": [0, 1], "B": [2, 3], "C": [4, 5, 6]}
    members = {
        each: MemberSpec(topic_ids=frozenset([T]), assigned=before.get(each, {})) for each in "ABCD"
    }
    after = ASSIGNORS["uniform"](GroupSpec(members=members, partition_counts={T: 7}))
    moved = {key: each[T.hex()] for key, each in named(after).items()}
    assert moved == {"A": [0, 1], "B": [2, 3], "C": [4, 5], "D": [6]}


def drawn(rng: random.Random) -> GroupSpec:
    counts = {rng.randbytes(16): rng.randint(1, 20) for _ in range(rng.randint(1, 6))}
    topics = list(counts)
    members = {
        f"m{index}": MemberSpec(
            topic_ids=frozenset(rng.sample(topics, rng.randint(0, len(topics))))
        )
        for index in range(rng.randint(1, 12))
    }
    wanted = frozenset[bytes]().union(*(each.topic_ids for each in members.values()))
    return GroupSpec(
        members=members, partition_counts={key: counts[key] for key in topics if key in wanted}
    )


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("seed", range(20))
def test_every_partition_has_one_owner_who_subscribes(name: str, seed: int) -> None:
    """CG-10 to CG-12: and a second run moves nothing."""
    group = drawn(random.Random(seed))
    assigned = ASSIGNORS[name](group)
    owners = Counter(
        (topic_id, partition)
        for member_id, each in assigned.items()
        for topic_id, partitions in each.items()
        for partition in partitions
        if topic_id in group.members[member_id].topic_ids
    )
    everything = {
        (topic_id, index): 1
        for topic_id, count in group.partition_counts.items()
        for index in range(count)
    }
    assert owners == everything
    again = ASSIGNORS[name](
        GroupSpec(
            members={
                key: MemberSpec(topic_ids=each.topic_ids, assigned=assigned.get(key, {}))
                for key, each in group.members.items()
            },
            partition_counts=group.partition_counts,
        )
    )
    assert named(again) == named(assigned)


def test_uniform_differs_by_one_at_most_among_equal_subscriptions() -> None:
    """CG-11, CG-12: with other members beside them that subscribe to less."""
    members = {f"m{index}": MemberSpec(topic_ids=frozenset([T, U])) for index in range(5)}
    members["less"] = MemberSpec(topic_ids=frozenset([U]))
    counts = {T: 23, U: 8}
    assigned = ASSIGNORS["uniform"](GroupSpec(members=members, partition_counts=counts))
    sizes = [sum(map(len, assigned[f"m{index}"].values())) for index in range(5)]
    assert max(sizes) - min(sizes) <= 1


def test_no_members_and_no_topics() -> None:
    """CG-11: nothing to assign is no error."""
    for assign in ASSIGNORS.values():
        assert assign(GroupSpec(members={}, partition_counts={})) == {}
        nobody = {"a": MemberSpec(topic_ids=frozenset())}
        assigned = assign(GroupSpec(members=nobody, partition_counts={}))
        assert not any(assigned.get("a", {}).values())


def test_hash_order_is_javas() -> None:
    """CG-11: by bucket, and within a bucket as they were put in."""
    assert members_in_order(["b", "a", "q", "Q"]) == ["a", "q", "Q", "b"]
    assert members_in_order(["q", "a"]) == ["q", "a"]
    assert uuid_hash(bytes(15) + b"\x05") == 5

"""Random groups for the tests of assignors, and what every assignment must satisfy."""

import random
from collections.abc import Mapping, Sequence

from barnabas_client.consumer.assignors import (
    Assignor,
    GroupMember,
    GroupTopics,
    flattened,
)
from barnabas_protocol.consumer_protocol import Assignment, Partitions, Subscription

RACKS = ("a", "b", "c")


def random_topics(source: random.Random, *, has_racks: bool = False) -> GroupTopics:
    counts = {f"t{at}": source.randint(1, 9) for at in range(source.randint(1, 6))}
    racks = {}
    if has_racks:
        racks = {
            topic: tuple(
                frozenset(source.sample(RACKS, source.randint(1, 3))) for _ in range(count)
            )
            for topic, count in counts.items()
        }
    return GroupTopics(partition_counts=counts, racks=racks)


def random_members(
    source: random.Random, topics: GroupTopics, *, is_equal: bool = False, has_racks: bool = False
) -> list[GroupMember]:
    names = list(topics.partition_counts)
    same = tuple(source.sample(names, source.randint(1, len(names))))
    members = []
    for at in range(source.randint(1, 7)):
        wanted = same if is_equal else tuple(source.sample(names, source.randint(1, len(names))))
        members.append(
            GroupMember(
                member_id=f"{source.choice('xyz')}-{at}",
                group_instance_id=f"i{source.randint(0, 9)}{at}" if source.random() < 0.3 else None,
                subscription=Subscription(
                    topics=wanted,
                    owned_partitions={},
                    generation_id=-1,
                    rack_id=source.choice((*RACKS, None)) if has_racks else None,
                ),
            )
        )
    return members


def after(
    assignor: Assignor,
    members: Sequence[GroupMember],
    assignments: Mapping[str, Assignment],
    generation_id: int,
) -> list[GroupMember]:
    """The members as they ask again once they got these assignments; new ones got nothing."""
    result = []
    for member in members:
        assignment = assignments.get(member.member_id)
        got: Partitions | None = assignment.partitions if assignment else None
        is_known = got is not None
        subscription = Subscription(
            topics=member.subscription.topics,
            owned_partitions=(got or {}) if assignor.is_cooperative else {},
            generation_id=generation_id if is_known else -1,
            rack_id=member.subscription.rack_id,
            user_data=assignor.user_data(
                member.subscription.topics, got, generation_id if is_known else -1
            ),
        )
        result.append(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                subscription=subscription,
            )
        )
    return result


def settled(
    assignor: Assignor, members: Sequence[GroupMember], topics: GroupTopics, generation_id: int = 0
) -> Mapping[str, Assignment]:
    """The assignments after as many rebalances as the assignor needs: two at most."""
    assignments = assignor.assign(members, topics)
    if assignor.is_cooperative:
        members = after(assignor, members, assignments, generation_id + 1)
        assignments = assignor.assign(members, topics)
    return assignments


def loads(assignments: Mapping[str, Assignment]) -> dict[str, int]:
    return {
        member_id: len(flattened(assignment.partitions))
        for member_id, assignment in assignments.items()
    }


def unevenness(assignments: Mapping[str, Assignment]) -> int:
    return sum(load * load for load in loads(assignments).values())


def kept_count(before: Mapping[str, Assignment], now: Mapping[str, Assignment]) -> int:
    """How many partitions are where they were."""
    return sum(
        len(set(flattened(before[member_id].partitions)) & set(flattened(assignment.partitions)))
        for member_id, assignment in now.items()
        if member_id in before
    )


def check_complete(
    members: Sequence[GroupMember], topics: GroupTopics, assignments: Mapping[str, Assignment]
) -> None:
    """Every member has an answer, every wanted partition one owner that wants it."""
    assert set(assignments) == {member.member_id for member in members}
    owners: dict[tuple[str, int], str] = {}
    for member in members:
        for partition in flattened(assignments[member.member_id].partitions):
            assert partition not in owners
            assert partition.topic in member.subscription.topics
            owners[partition] = member.member_id
    wanted = {topic for member in members for topic in member.subscription.topics}
    everything = {
        (topic, number)
        for topic in wanted
        for number in range(topics.partition_counts.get(topic, 0))
    }
    assert set(owners) == everything

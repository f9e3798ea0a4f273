"""Our assignors beside the ones of Kafka's Java client, on the same random groups.

`range` and `roundrobin` must give the same result. The sticky ones must be as even as Java's, or
more so, and keep as much; Java reads our user data and we read what it would.
"""

import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from barnabas_client.consumer.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupMember,
    GroupTopics,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from barnabas_protocol.consumer_protocol import Assignment, Partitions
from tests.client.consumer.assignors.cases import (
    after,
    check_complete,
    kept_count,
    loads,
    random_members,
    random_topics,
    unevenness,
)
from tests.support.java_tools import compile_java, java_command, maven_jars

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

VERSION = "4.1.1"
CASES = 400
Case = tuple[Sequence[GroupMember], GroupTopics]


def as_text(partitions: Partitions | None) -> str:
    parts = [
        f"{topic}:{'.'.join(map(str, numbers))}"
        for topic, numbers in (partitions or {}).items()
        if numbers
    ]
    return ",".join(parts) or "-"


def case_lines(assignor: Assignor, members: Sequence[GroupMember], topics: GroupTopics) -> str:
    lines = [f"assignor\t{assignor.name}"]
    for topic, count in topics.partition_counts.items():
        racks = topics.racks.get(topic) or [frozenset("-")] * count
        lines.append(f"topic\t{topic}\t{';'.join(','.join(sorted(names)) for names in racks)}")
    for member in members:
        wanted = member.subscription
        fields = [
            "member",
            member.member_id,
            member.group_instance_id or "-",
            wanted.rack_id or "-",
            str(wanted.generation_id),
            ",".join(wanted.topics),
            as_text(wanted.owned_partitions),
            wanted.user_data.hex() if wanted.user_data else "-",
        ]
        lines.append("\t".join(fields))
    return "\n".join([*lines, "end\n"])


def java_assigns(assignor: Assignor, cases: Sequence[Case]) -> list[dict[str, Assignment]]:
    """What Java's assignor of the same name makes of the cases."""
    jars = maven_jars(
        f"kafka-clients-{VERSION}",
        [f"org.apache.kafka:kafka-clients:{VERSION}", "org.slf4j:slf4j-nop:1.7.36"],
    )
    source = Path(__file__).parent / "java" / "AssignorRunner.java"
    classes = compile_java("assignor-runner", [source], jars)
    result = subprocess.run(
        java_command([classes, jars], "AssignorRunner", []),
        input="".join(case_lines(assignor, members, topics) for members, topics in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    answers: list[dict[str, Assignment]] = [{}]
    for line in result.stdout.splitlines():
        if line == "end":
            answers.append({})
            continue
        member_id, text = line.split("\t")
        answers[-1][member_id] = Assignment(partitions=parsed(text))
    return answers[:-1]


def parsed(text: str) -> Partitions:
    if text == "-":
        return {}
    pairs = (part.split(":") for part in text.split(","))
    return {topic: tuple(map(int, numbers.split("."))) for topic, numbers in pairs}


def in_order(assignments: Mapping[str, Assignment]) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return {
        member_id: sorted((t, tuple(sorted(n))) for t, n in a.partitions.items())
        for member_id, a in assignments.items()
    }


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()], ids=lambda a: a.name)
def test_range_and_round_robin_give_what_java_gives(assignor: Assignor) -> None:
    """Leader and followers may be of either kind: a change of leader must not move partitions."""
    source = random.Random(4)
    cases: list[Case] = []
    for at in range(CASES):
        has_racks = at % 2 == 1
        topics = random_topics(source, has_racks=has_racks)
        is_equal = source.random() < 0.5
        cases.append(
            (random_members(source, topics, is_equal=is_equal, has_racks=has_racks), topics)
        )
    for (members, topics), java in zip(cases, java_assigns(assignor, cases), strict=True):
        assert in_order(assignor.assign(members, topics)) == in_order(java), (members, topics)


@pytest.mark.parametrize(
    "assignor", [StickyAssignor(), CooperativeStickyAssignor()], ids=lambda a: a.name
)
@pytest.mark.parametrize("is_equal", [True, False], ids=["equal", "different"])
def test_the_sticky_ones_are_as_even_and_as_sticky_as_java_s(
    assignor: Assignor, is_equal: bool
) -> None:
    """From the same start both change a group; for equal subscriptions the numbers are the same.

    For different ones ours must be at least as even, and over all cases keep at least as much.
    """
    source = random.Random(5)
    starts: list[Case] = []
    changed: list[list[GroupMember]] = []
    for _ in range(CASES):
        topics = random_topics(source)
        members = random_members(source, topics, is_equal=is_equal)
        starts.append((members, topics))
        stayed = source.sample(members, source.randint(1, len(members)))
        joined = random_members(source, topics, is_equal=True)[: source.randint(0, 3)]
        if is_equal:
            joined = [with_topics(member, members[0].subscription.topics) for member in joined]
        changed.append(stayed + [with_id(member, f"new-{member.member_id}") for member in joined])
    firsts = java_assigns(assignor, starts)
    again = [
        (after(assignor, members, first, 1), topics)
        for members, first, (_, topics) in zip(changed, firsts, starts, strict=True)
    ]
    ours = [assignor.assign(members, topics) for members, topics in again]
    theirs: list[dict[str, Assignment]] = java_assigns(assignor, again)
    ours_kept = theirs_kept = 0
    for first, mine, java in zip(firsts, ours, theirs, strict=True):
        ours_kept += kept_count(first, mine)
        theirs_kept += kept_count(first, java)
        if is_equal:
            assert kept_count(first, mine) == kept_count(first, java)
    assert ours_kept >= theirs_kept
    if assignor.is_cooperative:
        again_ours = [
            (after(assignor, members, mine, 2), topics)
            for (members, topics), mine in zip(again, ours, strict=True)
        ]
        again_theirs = [
            (after(assignor, members, java, 2), topics)
            for (members, topics), java in zip(again, theirs, strict=True)
        ]
        # Java finishes what we began, and the other way round; where Java left something uneven,
        # ours takes one more rebalance to even it out.
        theirs = java_assigns(assignor, again_ours)
        ours = [assignor.assign(members, topics) for members, topics in again_theirs]
        ours = [
            assignor.assign(after(assignor, members, mine, 3), topics)
            for (members, topics), mine in zip(again, ours, strict=True)
        ]
    for (members, topics), mine, java in zip(again, ours, theirs, strict=True):
        check_complete(members, topics, mine)
        check_complete(members, topics, java)
        assert unevenness(mine) <= unevenness(java)
        if is_equal:
            assert sorted(loads(mine).values()) == sorted(loads(java).values())


def with_topics(member: GroupMember, topics: tuple[str, ...]) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        subscription=type(member.subscription)(topics=topics, owned_partitions={}),
    )


def with_id(member: GroupMember, member_id: str) -> GroupMember:
    return GroupMember(
        member_id=member_id,
        group_instance_id=None,
        subscription=member.subscription,
    )

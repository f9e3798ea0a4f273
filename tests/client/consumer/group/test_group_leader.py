"""What the leader makes of its members and of the cluster's picture."""

from collections.abc import Mapping, Sequence

import pytest

from barnabas_client.cluster.metadata import (
    ClusterMetadata,
    Node,
    PartitionMetadata,
    TopicMetadata,
)
from barnabas_client.consumer.assignors import (
    Assignor,
    GroupMember,
    GroupTopics,
    RangeAssignor,
)
from barnabas_client.consumer.group.group_leader import (
    group_assignments,
    group_members,
    topics_snapshot,
    wanted_topics,
)
from barnabas_client.errors import ClientBrokenError, UsageError
from barnabas_protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_subscription,
)
from barnabas_protocol.messages.join_group import JoinGroupResponseMember


def joined(member_id: str, version: int = 3, **fields: object) -> JoinGroupResponseMember:
    subscription = Subscription(topics=("t",), **fields)  # type: ignore[arg-type]
    metadata = encode_subscription(subscription, version)
    return JoinGroupResponseMember(member_id=member_id, metadata=metadata)


def picture(*, racks: bool) -> ClusterMetadata:
    nodes = {
        at: Node(node_id=at, host="h", port=1, rack="ab"[at] if racks else None) for at in (0, 1)
    }
    partitions = {
        at: PartitionMetadata(partition=at, leader_id=0, replica_ids=(at % 2,)) for at in range(3)
    }
    topics = {
        "t": TopicMetadata(name="t", partitions=partitions),
        "unknown": TopicMetadata(name="unknown"),
    }
    return ClusterMetadata(nodes=nodes, topics=topics)


def test_members_of_every_version_are_understood() -> None:
    """A group may have clients of many years."""
    members = group_members([joined(f"m{version}", version) for version in range(4)])
    assert wanted_topics(members) == {"t"}
    with pytest.raises(ClientBrokenError, match="'broken'"):
        group_members([JoinGroupResponseMember(member_id="broken", metadata=b"\x00")])


def test_only_topics_that_exist_count_and_racks_only_for_members_that_have_some() -> None:
    """A change of racks is no reason to meet for a group that does not regard them."""
    topics = {"t", "unknown", "missing"}
    plain = group_members([joined("m")])
    assert topics_snapshot(plain, topics, picture(racks=True)) == GroupTopics(
        partition_counts={"t": 3}
    )
    near = group_members([joined("m", rack_id="a")])
    seen = topics_snapshot(near, topics, picture(racks=True))
    assert seen.racks == {"t": (frozenset("a"), frozenset("b"), frozenset("a"))}
    assert topics_snapshot(near, topics, picture(racks=False)) != seen


class Careless(Assignor):
    """Gives everything to the last member, or nothing to some."""

    name = "careless"
    is_cooperative = True

    def __init__(self, *, forgets: bool = False) -> None:
        self.forgets = forgets

    def assign(
        self, members: Sequence[GroupMember], topics: GroupTopics
    ) -> Mapping[str, Assignment]:
        everything = {topic: tuple(range(n)) for topic, n in topics.partition_counts.items()}
        given = {member.member_id: Assignment(partitions={}) for member in members[:-1]}
        if self.forgets:
            given = {}
        return {**given, members[-1].member_id: Assignment(partitions=everything)}


def test_assignments_are_encoded_for_everybody() -> None:
    members = group_members([joined("m1"), joined("m2")])
    topics = topics_snapshot(members, {"t"}, picture(racks=False))
    encoded = group_assignments(RangeAssignor(), members, topics)
    given = {each.member_id: decode_assignment(each.assignment).partitions for each in encoded}
    assert given == {"m1": {"t": (0, 1)}, "m2": {"t": (2,)}}


def test_an_assignor_s_mistakes_are_named() -> None:
    """A program's own assignor: who was forgotten, and what would have had two owners."""
    owner = joined("m1", owned_partitions={"t": (1,)}, generation_id=4)
    taker = joined("m2", owned_partitions={}, generation_id=4)
    topics = GroupTopics(partition_counts={"t": 2})
    with pytest.raises(UsageError, match="'careless' gave nothing to \\['m1'\\]"):
        group_assignments(Careless(forgets=True), group_members([owner, taker]), topics)
    with pytest.raises(UsageError, match="t-1 to 'm2' while 'm1' still has it"):
        group_assignments(Careless(), group_members([owner, taker]), topics)
    # What a member says that missed a generation is not to be relied on.
    late = joined("m1", owned_partitions={"t": (1,)}, generation_id=3)
    assert group_assignments(Careless(), group_members([late, taker]), topics)

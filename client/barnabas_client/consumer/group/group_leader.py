"""What the leader of a classic group does: it assigns, and watches the topics.

Pure: it gets the metadata as an argument.

Source: CON-2 (the union of the members' topics), KIP-881 (racks).
Invariants: an assignment is made from a snapshot of the topics; metadata that differ from it in the
number of partitions, or in the racks where members have some, ask for a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas_client.cluster.metadata import ClusterMetadata, TopicMetadata
from barnabas_client.consumer.assignors import Assignor, GroupMember, GroupTopics, flattened
from barnabas_client.errors import ClientBrokenError, UsageError
from barnabas_protocol.consumer_protocol import decode_subscription, encode_assignment
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.join_group import JoinGroupResponseMember
from barnabas_protocol.messages.sync_group import SyncGroupRequestAssignment


def group_members(members: Iterable[JoinGroupResponseMember]) -> list[GroupMember]:
    """The members with their subscriptions.

    Raises: ClientBrokenError for a subscription that cannot be read.
    """
    result = []
    for member in members:
        try:
            subscription = decode_subscription(member.metadata)
        except ParseError as error:
            raise ClientBrokenError(
                f"the subscription of member {member.member_id!r} cannot be read: {error}"
            ) from error
        result.append(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                subscription=subscription,
            )
        )
    return result


def wanted_topics(members: Iterable[GroupMember]) -> frozenset[str]:
    """Every topic that a member wants."""
    return frozenset(topic for member in members for topic in member.subscription.topics)


def topics_snapshot(
    members: Sequence[GroupMember], topics: Iterable[str], cluster: ClusterMetadata
) -> GroupTopics:
    """The topics that exist; with racks if there are members that say where they are."""
    has_racks = any(member.subscription.rack_id for member in members)
    counts = {}
    racks = {}
    for name in sorted(topics):
        topic = cluster.topics.get(name)
        if topic is None or not topic.partitions:
            continue
        counts[name] = len(topic.partitions)
        if has_racks:
            racks[name] = _racks(topic, cluster)
    return GroupTopics(partition_counts=counts, racks=racks)


def _racks(topic: TopicMetadata, cluster: ClusterMetadata) -> tuple[frozenset[str], ...]:
    """The racks of the replicas of each partition, in the order of the partitions."""
    rack_by_node = {node_id: node.rack for node_id, node in cluster.nodes.items() if node.rack}
    return tuple(
        frozenset(
            rack_by_node[node_id] for node_id in partition.replica_ids if node_id in rack_by_node
        )
        for partition in topic.partitions.values()
    )


def group_assignments(
    assignor: Assignor, members: Sequence[GroupMember], topics: GroupTopics
) -> list[SyncGroupRequestAssignment]:
    """What SyncGroup carries for every member.

    Raises: UsageError if the assignor forgets a member, or lets a partition go straight from one
    cooperative member to another.
    """
    assignments = assignor.assign(members, topics)
    missing = {member.member_id for member in members} - assignments.keys()
    if missing:
        raise UsageError(f"the assignor {assignor.name!r} gave nothing to {sorted(missing)}")
    if assignor.is_cooperative:
        _check_cooperative(assignor, members, {m: a.partitions for m, a in assignments.items()})
    return [
        SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(assignment))
        for member_id, assignment in assignments.items()
    ]


def _check_cooperative(
    assignor: Assignor,
    members: Sequence[GroupMember],
    assigned: dict[str, dict[str, tuple[int, ...]]],
) -> None:
    """KIP-429: an owned partition is not assigned to another member in the same rebalance."""
    newest = max((member.subscription.generation_id for member in members), default=-1)
    owners: dict[tuple[str, int], str] = {}
    for member in members:
        # Claims of an earlier generation may be wrong.
        if member.subscription.generation_id in (newest, -1):
            for partition in flattened(member.subscription.owned_partitions):
                owners[partition] = member.member_id
    for member_id, partitions in assigned.items():
        for partition in flattened(partitions):
            owner = owners.get(partition, member_id)
            if owner != member_id:
                raise UsageError(
                    f"the cooperative assignor {assignor.name!r} gave {partition} to {member_id!r}"
                    f" while {owner!r} still has it: leave it out until the next rebalance"
                )

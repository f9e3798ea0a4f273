"""Consumer groups as ConsumerGroupDescribe shows them. Source: CG-13."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas_broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas_broker.coordinator.group.consumer.member import ConsumerMember
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, default_assignor: str, topics: Topics) -> DescribedGroup:
    """Return the group with its members, their targets and what they have."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def unknown_group(group_id: str, reason: str) -> DescribedGroup:
    """Return the description of what is no consumer group."""
    return DescribedGroup(
        group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    held: dict[bytes, list[int]] = {}
    for topic_id, partition in member.held():
        held.setdefault(topic_id, []).append(partition)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern or "",
        assignment=_assignment(held, topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    """Name the topics; those that were deleted since are left out."""
    named = ((topics.topic_name(each), each) for each in partitions)
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id])
            )
            for name, topic_id in sorted((name, each) for name, each in named if name is not None)
        ]
    )

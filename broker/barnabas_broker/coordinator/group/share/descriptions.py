"""Share groups as ShareGroupDescribe shows them. Source: KIP-932, SHR-28."""

from __future__ import annotations

from barnabas_broker.coordinator.group.share import simple
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.share_group import ShareGroup
from barnabas_broker.coordinator.group.topics import Topics
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def describe(group: ShareGroup, topics: Topics) -> DescribedGroup:
    """Return the group with its members and what they have."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=simple.NAME,
        members=[_member(member, topics) for member in group.members.values()],
    )


def unknown_group(group_id: str, reason: str) -> DescribedGroup:
    """Return the description of what is no share group."""
    return DescribedGroup(
        group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    named = ((topics.topic_name(each), each) for each in member.assigned)
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=name,
                    partitions=sorted(member.assigned[topic_id]),
                )
                for name, topic_id in sorted((name, each) for name, each in named if name)
            ]
        ),
    )

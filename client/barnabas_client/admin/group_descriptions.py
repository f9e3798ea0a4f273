"""Makes descriptions of consumer groups out of responses of either protocol.

Pure. What members of classic groups say is read here for the protocol type `consumer` only; a
group that no member ever joined has an empty protocol type and is described as well.
"""

from __future__ import annotations

from typing import Any

from barnabas_client.admin.api_errors import ApiError
from barnabas_client.admin.values.acls import operations_of_bits
from barnabas_client.admin.values.groups import (
    ClassicGroupDescription,
    ClassicGroupMember,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from barnabas_protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from barnabas_protocol.errors import ErrorCode, ParseError
from barnabas_protocol.ids import TopicPartition


def consumer_group(one: Any, coordinator_id: int) -> GroupDescription:
    """The description in a response of ConsumerGroupDescribe."""
    return GroupDescription(
        group_id=one.group_id,
        type=GroupType.CONSUMER,
        state=GroupState(one.group_state),
        assignor=one.assignor_name,
        coordinator_id=coordinator_id,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=assigned(member.assignment),
                target_assignment=assigned(member.target_assignment),
                subscribed_topics=tuple(member.subscribed_topic_names),
                subscribed_topic_regex=member.subscribed_topic_regex or None,
                rack_id=member.rack_id,
                member_epoch=member.member_epoch,
                # 0 is a member that speaks the classic protocol, -1 where the broker cannot tell.
                is_upgraded=None if member.member_type < 0 else member.member_type == 1,
            )
            for member in one.members
        ),
        group_epoch=one.group_epoch,
        assignment_epoch=one.assignment_epoch,
        authorized_operations=operations_of_bits(one.authorized_operations),
    )


def assigned(assignment: Any) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment in the format of newer groups."""
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def classic_group(one: Any, coordinator_id: int) -> ClassicGroupDescription | ApiError:
    """The description in a response of DescribeGroups.

    Up to version 5 a group that does not exist has the state Dead.
    """
    if one.group_state == GroupState.DEAD:
        return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, one.error_message)
    return ClassicGroupDescription(
        group_id=one.group_id,
        state=GroupState(one.group_state),
        protocol_type=one.protocol_type,
        protocol_name=one.protocol_data,
        coordinator_id=coordinator_id,
        members=tuple(
            ClassicGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=bytes(member.member_metadata),
                assignment=bytes(member.member_assignment),
            )
            for member in one.members
        ),
        authorized_operations=operations_of_bits(one.authorized_operations),
    )


def consumer_group_of_classic(one: Any, coordinator_id: int) -> GroupDescription | ApiError:
    """The description of a classic group of consumers."""
    group = classic_group(one, coordinator_id)
    if isinstance(group, ApiError):
        return group
    if group.protocol_type not in (PROTOCOL_TYPE, ""):
        return ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"its members are not consumers but of the type {group.protocol_type!r}",
        )
    try:
        members = tuple(_consumer(member) for member in group.members)
    except ParseError as error:
        reason = f"what a member said is malformed: {error}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=group.state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_name,
        coordinator_id=coordinator_id,
        members=members,
        authorized_operations=group.authorized_operations,
    )


def _consumer(member: ClassicGroupMember) -> MemberDescription:
    # Before the first rebalance is complete there is neither.
    topics = decode_subscription(member.metadata).topics if member.metadata else ()
    assignment = decode_assignment(member.assignment)
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=tuple(
            TopicPartition(topic, partition)
            for topic, partitions in assignment.partitions.items()
            for partition in partitions
        ),
        subscribed_topics=topics,
    )

"""Records of share groups in `__consumer_offsets`: types 10 to 15, in both directions.

Not here: what a record means for a group (`share_groups.py`). Source: SHR-30.

    10  group, member   what a member has said about itself
    11  group           group epoch and metadata hash
    12  group           assignment epoch: all targets before it are of that epoch
    13  group, member   what a member is to have
    14  group, member   what a member has, and how far it is
    15  group           of which partitions there is state
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment
from barnabas_broker.coordinator.group.consumer.records import (
    AssignmentEpochValue,
    GroupEpochValue,
    packed_target,
)
from barnabas_broker.coordinator.group.share.member import ShareMember
from barnabas_broker.coordinator.group.share.partition_states import (
    PartitionStates,
    TopicState,
    TopicStates,
)
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.messages.records_share_group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartitions,
    TopicPartitionsInfo,
)
from barnabas_protocol.schema import Message

MEMBER_TYPE = 10
GROUP_EPOCH_TYPE = 11
ASSIGNMENT_EPOCH_TYPE = 12
TARGET_TYPE = 13
CURRENT_TYPE = 14
PARTITIONS_TYPE = 15

# Kafka's number of a member that is where it shall be; members of share groups always are.
STABLE_STATE = 0

_INT16 = struct.Struct(">h")
_VERSION_0 = b"\0\0"


class ShareGroupKey(NamedTuple):
    """The key of a record of a share group; the name is a member's id, or empty."""

    record_type: int
    group_id: str
    name: str = ""


# ---- writing -------------------------------------------------------------------------------------


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of what a member has said about itself."""
    message = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return _record(ShareGroupKey(MEMBER_TYPE, group_id, member.member_id), message)


def group_epoch_record(group_id: str, value: GroupEpochValue) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    message = ShareGroupMetadataValue(epoch=value.group_epoch, metadata_hash=value.metadata_hash)
    return _record(ShareGroupKey(GROUP_EPOCH_TYPE, group_id), message)


def assignment_epoch_record(group_id: str, value: AssignmentEpochValue) -> CoordinatorRecord:
    """Return the record of the assignment epoch."""
    message = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.assignment_epoch, assignment_timestamp=value.assigned_ms
    )
    return _record(ShareGroupKey(ASSIGNMENT_EPOCH_TYPE, group_id), message)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """Return the record of what a member is to have."""
    return packed_target(TARGET_TYPE, group_id, member_id, target)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of what a member has, and how far it is."""
    message = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=STABLE_STATE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in member.assigned.items()
        ],
    )
    return _record(ShareGroupKey(CURRENT_TYPE, group_id, member.member_id), message)


def partitions_record(group_id: str, states: PartitionStates) -> CoordinatorRecord:
    """Return the record of which partitions there is state of."""
    message = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topic_infos(states.initializing),
        initialized_topics=_topic_infos(states.initialized),
        deleting_topics=[
            TopicInfo(topic_id=topic_id, topic_name=name)
            for topic_id, name in sorted(states.deleting.items())
        ],
    )
    return _record(ShareGroupKey(PARTITIONS_TYPE, group_id), message)


def tombstone(record_type: int, group_id: str, name: str = "") -> CoordinatorRecord:
    """Return the record that removes what the key stands for."""
    return CoordinatorRecord(_key(ShareGroupKey(record_type, group_id, name)), None)


def _topic_infos(topics: TopicStates) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions)
        )
        for topic_id, topic in sorted(topics.items())
    ]


def _record(key: ShareGroupKey, message: Message) -> CoordinatorRecord:
    return CoordinatorRecord(_key(key), _VERSION_0 + encode(message, 0))


def _key(key: ShareGroupKey) -> bytes:
    record_type, group_id, name = key
    message: Message
    match record_type:
        case 10:
            message = ShareGroupMemberMetadataKey(group_id=group_id, member_id=name)
        case 11:
            message = ShareGroupMetadataKey(group_id=group_id)
        case 12:
            message = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
        case 13:
            message = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name)
        case 14:
            message = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name)
        case _:
            message = ShareGroupStatePartitionMetadataKey(group_id=group_id)
    return _INT16.pack(record_type) + encode(message, 0)


# ---- reading -------------------------------------------------------------------------------------


def read_share_key(record_type: int, data: bytes) -> ShareGroupKey | None:
    """Return the key; None for a type that is not of share groups. Raises: ParseError."""
    match record_type:
        case 10 | 13 | 14:
            member, _ = decode(ShareGroupMemberMetadataKey, data, 0, 2)
            return ShareGroupKey(record_type, member.group_id, member.member_id)
        case 11 | 12 | 15:
            group, _ = decode(ShareGroupMetadataKey, data, 0, 2)
            return ShareGroupKey(record_type, group.group_id)
        case _:
            return None


def read_member(member_id: str, data: bytes) -> ShareMember:
    """Return the value of a record of type 10, as a member that has nothing. Raises: ParseError."""
    value, _ = decode(ShareGroupMemberMetadataValue, data, 0, 2)
    return ShareMember(
        member_id=member_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
    )


def read_group_epoch(data: bytes) -> GroupEpochValue:
    """Return the value of a record of type 11. Raises: ParseError."""
    value, _ = decode(ShareGroupMetadataValue, data, 0, 2)
    return GroupEpochValue(value.epoch, value.metadata_hash)


def read_assignment_epoch(data: bytes) -> AssignmentEpochValue:
    """Return the value of a record of type 12. Raises: ParseError."""
    value, _ = decode(ShareGroupTargetAssignmentMetadataValue, data, 0, 2)
    return AssignmentEpochValue(value.assignment_epoch, value.assignment_timestamp)


def read_target(data: bytes) -> Assignment:
    """Return the value of a record of type 13. Raises: ParseError."""
    value, _ = decode(ShareGroupTargetAssignmentMemberValue, data, 0, 2)
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


class ShareCurrentValue(NamedTuple):
    """Record type 14."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Assignment


def read_current(data: bytes) -> ShareCurrentValue:
    """Return the value of a record of type 14. Raises: ParseError."""
    value, _ = decode(ShareGroupCurrentMemberAssignmentValue, data, 0, 2)
    return ShareCurrentValue(
        value.member_epoch,
        value.previous_member_epoch,
        {each.topic_id: frozenset(each.partitions) for each in value.assigned_partitions},
    )


def read_partitions(data: bytes) -> PartitionStates:
    """Return the value of a record of type 15. Raises: ParseError."""
    value, _ = decode(ShareGroupStatePartitionMetadataValue, data, 0, 2)
    return PartitionStates(
        initializing=_read_topics(value.initializing_topics),
        initialized=_read_topics(value.initialized_topics),
        deleting={each.topic_id: each.topic_name for each in value.deleting_topics},
    )


def _read_topics(topics: Iterable[TopicPartitionsInfo]) -> TopicStates:
    return {
        each.topic_id: TopicState(each.topic_name, frozenset(each.partitions)) for each in topics
    }

"""Records of consumer groups in `__consumer_offsets`: types 3 to 8 and 16, in both directions.

Not here: classic groups and offsets (`group/records.py`); what a record means (`replay.py`).
Source: formats.md 10. Type 4 is read only to be forgotten: Kafka 4.0 wrote it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from barnabas_broker.coordinator.group.consumer.assignors.group_spec import Assignment
from barnabas_broker.coordinator.group.consumer.consumer_group import ResolvedPattern
from barnabas_broker.coordinator.group.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    Owned,
)
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages.records_consumer_offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)

GROUP_EPOCH_TYPE = 3
PARTITION_METADATA_TYPE = 4
MEMBER_TYPE = 5
ASSIGNMENT_EPOCH_TYPE = 6
TARGET_TYPE = 7
CURRENT_TYPE = 8
PATTERN_TYPE = 16

_INT16 = struct.Struct(">h")
_VERSION_0 = b"\0\0"


class ConsumerGroupKey(NamedTuple):
    """The key of a record of a consumer group; the name is a member's id, or a pattern."""

    record_type: int
    group_id: str
    name: str = ""


class GroupEpochValue(NamedTuple):
    """Record type 3."""

    group_epoch: int
    metadata_hash: int


class AssignmentEpochValue(NamedTuple):
    """Record type 6."""

    assignment_epoch: int
    assigned_ms: int


# ---- writing -------------------------------------------------------------------------------------


def group_epoch_record(group_id: str, value: GroupEpochValue) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    message = ConsumerGroupMetadataValue(epoch=value.group_epoch, metadata_hash=value.metadata_hash)
    return _record(ConsumerGroupKey(GROUP_EPOCH_TYPE, group_id), message)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member has said about itself."""
    classic = member.classic
    message = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
    )
    return _record(ConsumerGroupKey(MEMBER_TYPE, group_id, member.member_id), message)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of what a member has, and how far it is."""
    message = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_owned_message(member.assigned),
        partitions_pending_revocation=_owned_message(member.revoking),
    )
    return _record(ConsumerGroupKey(CURRENT_TYPE, group_id, member.member_id), message)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """Return the record of what a member is to have."""
    return packed_target(TARGET_TYPE, group_id, member_id, target)


def packed_target(
    record_type: int, group_id: str, member_id: str, target: Assignment
) -> CoordinatorRecord:
    """Return the record of a target of type 7, or of type 13, whose bytes are alike.

    Packed by hand, because one heartbeat may write that of every member: key with the ids of group
    and member; value of version 0 with arrays that begin with their count and one, and without
    tagged fields.
    """
    group, member = group_id.encode(), member_id.encode()
    key = b"%b%b%b%b%b" % (
        _INT16.pack(record_type),
        _INT16.pack(len(group)),
        group,
        _INT16.pack(len(member)),
        member,
    )
    value = bytearray(_VERSION_0)
    value += _compact_length(len(target))
    for topic_id, partitions in target.items():
        count = len(partitions)
        value += topic_id
        value += _compact_length(count)
        value += struct.pack(f">{count}i", *sorted(partitions))
        value.append(0)
    value.append(0)
    return CoordinatorRecord(key, bytes(value))


def _compact_length(count: int) -> bytes:
    number = count + 1
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def assignment_epoch_record(group_id: str, value: AssignmentEpochValue) -> CoordinatorRecord:
    """Return the record of the assignment epoch: all targets before it are of that epoch."""
    message = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.assignment_epoch, assignment_timestamp=value.assigned_ms
    )
    return _record(ConsumerGroupKey(ASSIGNMENT_EPOCH_TYPE, group_id), message)


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> CoordinatorRecord:
    """Return the record of what a pattern matches."""
    message = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms
    )
    return _record(ConsumerGroupKey(PATTERN_TYPE, group_id, pattern), message)


def tombstone(record_type: int, group_id: str, name: str = "") -> CoordinatorRecord:
    """Return the record that removes what the key stands for."""
    return CoordinatorRecord(_key(ConsumerGroupKey(record_type, group_id, name)), None)


def _owned_message(owned: Owned) -> list[TopicPartitions]:
    topics = []
    for topic_id, since in owned.items():
        partitions = sorted(since)
        topics.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=partitions,
                assignment_epochs=[since[partition] for partition in partitions],
            )
        )
    return topics


def _record(key: ConsumerGroupKey, message: object) -> CoordinatorRecord:
    return CoordinatorRecord(_key(key), _VERSION_0 + encode(message, 0))  # type: ignore[arg-type]


def _key(key: ConsumerGroupKey) -> bytes:
    record_type, group_id, name = key
    prefix = _INT16.pack(record_type)
    match record_type:
        case 5:
            return prefix + encode(
                ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=name), 0
            )
        case 7:
            return prefix + encode(
                ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name), 0
            )
        case 8:
            return prefix + encode(
                ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=name), 0
            )
        case 16:
            return prefix + encode(
                ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=name), 0
            )
        case _:
            # All others have the group's id alone.
            return prefix + encode(ConsumerGroupMetadataKey(group_id=group_id), 0)


# ---- reading -------------------------------------------------------------------------------------


def read_consumer_key(record_type: int, data: bytes) -> ConsumerGroupKey | None:
    """Return the key of a record; None for a type that is no consumer group's.

    Raises: ParseError if it is malformed.
    """
    match record_type:
        case 3 | 4:
            key, _ = decode(ConsumerGroupMetadataKey, data, 0, 2)
            return ConsumerGroupKey(record_type, key.group_id)
        case 6:
            epoch_key, _ = decode(ConsumerGroupTargetAssignmentMetadataKey, data, 0, 2)
            return ConsumerGroupKey(record_type, epoch_key.group_id)
        case 5 | 7 | 8:
            member_key, _ = decode(ConsumerGroupMemberMetadataKey, data, 0, 2)
            return ConsumerGroupKey(record_type, member_key.group_id, member_key.member_id)
        case 16:
            pattern_key, _ = decode(ConsumerGroupRegularExpressionKey, data, 0, 2)
            name = pattern_key.regular_expression
            return ConsumerGroupKey(record_type, pattern_key.group_id, name)
        case _:
            return None


def is_known_version(data: bytes) -> bool:
    """Whether this release can read a value. Raises: ParseError if it is malformed."""
    if len(data) < 2:
        raise ParseError(f"coordinator record value of {len(data)} bytes", 0)
    return data[:2] == _VERSION_0


def read_group_epoch(data: bytes) -> GroupEpochValue:
    """Return the value of a record of type 3. Raises: ParseError."""
    value, _ = decode(ConsumerGroupMetadataValue, data, 0, 2)
    return GroupEpochValue(value.epoch, value.metadata_hash)


def read_assignment_epoch(data: bytes) -> AssignmentEpochValue:
    """Return the value of a record of type 6. Raises: ParseError."""
    value, _ = decode(ConsumerGroupTargetAssignmentMetadataValue, data, 0, 2)
    return AssignmentEpochValue(value.assignment_epoch, value.assignment_timestamp)


def read_target(data: bytes) -> Assignment:
    """Return the value of a record of type 7. Raises: ParseError."""
    value, _ = decode(ConsumerGroupTargetAssignmentMemberValue, data, 0, 2)
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


def read_pattern(data: bytes) -> ResolvedPattern:
    """Return the value of a record of type 16. Raises: ParseError."""
    value, _ = decode(ConsumerGroupRegularExpressionValue, data, 0, 2)
    return ResolvedPattern(frozenset(value.topics), value.version, value.timestamp)


def read_member(member_id: str, data: bytes) -> ConsumerMember:
    """Return the value of a record of type 5, as a member that has nothing. Raises: ParseError."""
    value, _ = decode(ConsumerGroupMemberMetadataValue, data, 0, 2)
    classic = value.classic_member_metadata
    return ConsumerMember(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        pattern=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicSide(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple(
                (each.name, bytes(each.metadata)) for each in classic.supported_protocols
            ),
        ),
    )


class CurrentValue(NamedTuple):
    """Record type 8."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Owned
    revoking: Owned


def read_current(data: bytes) -> CurrentValue:
    """Return the value of a record of type 8. Raises: ParseError."""
    value, _ = decode(ConsumerGroupCurrentMemberAssignmentValue, data, 0, 2)
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    # Records of Kafka 4.2 and before do not say with which epoch a partition was assigned.
    since = max(value.member_epoch, 0)
    return CurrentValue(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        _read_owned(value.assigned_partitions, since),
        _read_owned(value.partitions_pending_revocation, since),
    )


def _read_owned(topics: Sequence[TopicPartitions], since: int) -> Owned:
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [since] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned

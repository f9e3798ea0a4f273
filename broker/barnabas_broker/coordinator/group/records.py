"""Records of `__consumer_offsets`: typed keys and values, and their bytes.

Not here: what a record means for a group (`shard.py`), records of consumer groups
(`consumer/records.py`) and of share groups (`share/records.py`). Source: formats.md 10.

    key    int16 type, fields of the type      (never flexible)
    value  int16 version, fields of the version; null is a tombstone

Written: OffsetCommitValue 4 with the topic's id, as Kafka 4.3 does (1 with an explicit retention, 3
where the id is not known), GroupMetadataValue 3. Read: 0-4.
Invariant: an unknown type or version is not an error; it is skipped and counted.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from barnabas_broker.coordinator.group.classic import ClassicGroup, GroupState
from barnabas_broker.coordinator.group.consumer.records import (
    ConsumerGroupKey,
    read_consumer_key,
)
from barnabas_broker.coordinator.group.members import ClassicMember
from barnabas_broker.coordinator.group.share.records import ShareGroupKey, read_share_key
from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.records_consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_COMMIT_TYPES = (0, 1)
GROUP_METADATA_TYPE = 2
OFFSET_COMMIT_VERSION = 3
# The first with the id of the topic, in a tag.
OFFSET_COMMIT_VERSION_WITH_ID = 4
# The only version with an expiry time; only OffsetCommit requests of version 2-4 can set one.
OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1
GROUP_METADATA_VERSION = 3
VALUE_VERSION_MAX = 4
# A group commits the same partitions again and again, and a log holds each key many times.
KEYS_KEPT = 16_384

_INT16 = struct.Struct(">h")


class CommittedOffset(NamedTuple):
    """What a group committed for a partition; times are wall time in milliseconds, -1 = none.

    The topic's id is zero where it is not known.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = ZERO_UUID


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """The key of a group's metadata."""

    group_id: str


def offset_record(key: OffsetKey, committed: CommittedOffset) -> CoordinatorRecord:
    """Return the record that stores a committed offset."""
    version = OFFSET_COMMIT_VERSION
    if committed.expire_ms >= 0:
        version = OFFSET_COMMIT_VERSION_WITH_EXPIRY
    elif committed.topic_id != ZERO_UUID:
        version = OFFSET_COMMIT_VERSION_WITH_ID
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(_offset_key(key), _INT16.pack(version) + encode(value, version))


def offset_tombstone(key: OffsetKey) -> CoordinatorRecord:
    """Return the record that removes a committed offset."""
    return CoordinatorRecord(_offset_key(key), None)


def group_record(
    group: ClassicGroup, assignments: dict[str, bytes] | None = None
) -> CoordinatorRecord:
    """Return the record of a group as it stands, or with assignments that are not in force yet."""
    protocol_name = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_changed_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol_name or ""),
                assignment=(
                    member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b"")
                ),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(
        _group_key(group.group_id),
        _INT16.pack(GROUP_METADATA_VERSION) + encode(value, GROUP_METADATA_VERSION),
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the record that removes a group's metadata."""
    return CoordinatorRecord(_group_key(group_id), None)


@lru_cache(maxsize=KEYS_KEPT)
def read_key(data: bytes) -> OffsetKey | GroupKey | ConsumerGroupKey | ShareGroupKey | None:
    """Return the key; None for a type that is not known here.

    Raises: ParseError if it is malformed.
    """
    if len(data) < 2:
        raise ParseError(f"coordinator record key of {len(data)} bytes", 0)
    (record_type,) = _INT16.unpack_from(data)
    if record_type in OFFSET_COMMIT_TYPES:
        key, _ = decode(OffsetCommitKey, data, 0, 2)
        return OffsetKey(key.group, key.topic, key.partition)
    if record_type == GROUP_METADATA_TYPE:
        group_key, _ = decode(GroupMetadataKey, data, 0, 2)
        return GroupKey(group_key.group)
    return read_share_key(record_type, data) or read_consumer_key(record_type, data)


def read_offset(data: bytes) -> CommittedOffset | None:
    """Return the committed offset in a value; None for a version that is not known.

    Raises: ParseError if it is malformed.
    """
    version = _value_version(data)
    if version is None:
        return None
    value, _ = decode(OffsetCommitValue, data, version, 2)
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def read_group(group_id: str, data: bytes) -> ClassicGroup | None:
    """Return the group in a value, Stable or Empty; None for a version that is not known.

    Raises: ParseError if it is malformed.
    """
    version = _value_version(data)
    if version is None:
        return None
    value, _ = decode(GroupMetadataValue, data, version, 2)
    group = ClassicGroup(group_id)
    for each in value.members:
        # Version 0 has no rebalance timeout: the session timeout served as both then.
        rebalance_timeout_ms = each.rebalance_timeout
        member = ClassicMember(
            each.member_id,
            group_instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=(
                each.session_timeout if rebalance_timeout_ms < 0 else rebalance_timeout_ms
            ),
            session_timeout_ms=each.session_timeout,
            protocols=((value.protocol or "", bytes(each.subscription)),),
            assignment=bytes(each.assignment),
        )
        if member.member_id not in group.members:
            group.add(member, value.protocol_type)
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.generation_id = value.generation
    group.leader_id = value.leader if group.members else None
    if value.leader is not None and group.leader_id not in group.members:
        group.leader_id = next(iter(group.members), None)
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    group.state_changed_ms = value.current_state_timestamp
    group.compute_subscribed_topics()
    return group


def _value_version(data: bytes) -> int | None:
    if len(data) < 2:
        raise ParseError(f"coordinator record value of {len(data)} bytes", 0)
    version = int(_INT16.unpack_from(data)[0])
    return version if 0 <= version <= VALUE_VERSION_MAX else None


@lru_cache(maxsize=KEYS_KEPT)
def _offset_key(key: OffsetKey) -> bytes:
    message = OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    return _INT16.pack(1) + encode(message, 0)


def _group_key(group_id: str) -> bytes:
    return _INT16.pack(GROUP_METADATA_TYPE) + encode(GroupMetadataKey(group=group_id), 0)

"""Records of `__share_group_state`: keys and values, and their bytes.

Not here: what a record means (`state.py`, `shard.py`). Source: SHR-23.

    key    int16 type, string group, uuid topic id, int32 partition; never flexible
    value  int16 version = 0, flexible fields; null: forgotten (of a snapshot's key)

Type 0 is a snapshot, 1 an update. Invariant: an unknown type or version is not an error; it is
skipped and counted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeVar

from barnabas_broker.coordinator.runtime.shard import CoordinatorRecord
from barnabas_broker.coordinator.share.batches import merge
from barnabas_broker.coordinator.share.state import ShareSnapshot, ShareUpdate
from barnabas_broker.share.persister import SharePartitionKey, StateBatch
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.errors import ParseError
from barnabas_protocol.messages import records_share_state as messages

SNAPSHOT: Final = 0
UPDATE: Final = 1

_INT16 = struct.Struct(">h")
_VERSION: Final = 0


Batch = TypeVar("Batch")


class StateKey(NamedTuple):
    """The key of a record: which share partition, and of which type the value is."""

    is_snapshot: bool
    share_partition: SharePartitionKey


def snapshot_record(key: SharePartitionKey, snapshot: ShareSnapshot) -> CoordinatorRecord:
    """Return the record that holds a state as a whole."""
    value = messages.ShareSnapshotValue(
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        create_timestamp=snapshot.created_ms,
        write_timestamp=snapshot.written_ms,
        state_batches=message_batches(messages.StateBatch, snapshot.batches),
    )
    return CoordinatorRecord(_key(SNAPSHOT, key), _value(value))


def update_record(key: SharePartitionKey, update: ShareUpdate) -> CoordinatorRecord:
    """Return the record that changes a state."""
    value = messages.ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=message_batches(messages.StateBatch, update.batches),
    )
    return CoordinatorRecord(_key(UPDATE, key), _value(value))


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """Return the record that forgets a share partition."""
    return CoordinatorRecord(_key(SNAPSHOT, key), None)


def read_key(data: bytes) -> StateKey | None:
    """Return what a key says; None for an unknown type. Raises: ParseError."""
    key_type = _number(data)
    if key_type not in (SNAPSHOT, UPDATE):
        return None
    # Both types have the same fields.
    key, _ = decode(messages.ShareSnapshotKey, data, _VERSION, _INT16.size)
    return StateKey(
        key_type == SNAPSHOT, SharePartitionKey(key.group_id, bytes(key.topic_id), key.partition)
    )


def read_snapshot(data: bytes) -> ShareSnapshot | None:
    """Return the state of a value; None for an unknown version. Raises: ParseError."""
    if _number(data) != _VERSION:
        return None
    value, _ = decode(messages.ShareSnapshotValue, data, _VERSION, _INT16.size)
    return ShareSnapshot(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
        batches=merge((), read_batches(value.state_batches), value.start_offset),
    )


def read_update(data: bytes) -> ShareUpdate | None:
    """Return the change of a value; None for an unknown version. Raises: ParseError."""
    if _number(data) != _VERSION:
        return None
    value, _ = decode(messages.ShareUpdateValue, data, _VERSION, _INT16.size)
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple(read_batches(value.state_batches)),
    )


class MessageBatch(Protocol):
    """A state batch as messages and records have it."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def read_batches(batches: Iterable[MessageBatch]) -> list[StateBatch]:
    """Return the batches of a message."""
    return [
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
        )
        for batch in batches
    ]


def message_batches(kind: Callable[..., Batch], batches: Iterable[StateBatch]) -> list[Batch]:
    """Return the batches in the class of a message or a record."""
    return [
        kind(
            first_offset=one.first_offset,
            last_offset=one.last_offset,
            delivery_state=one.delivery_state,
            delivery_count=one.delivery_count,
        )
        for one in batches
    ]


def _key(key_type: int, key: SharePartitionKey) -> bytes:
    fields = messages.ShareSnapshotKey(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    )
    return _INT16.pack(key_type) + encode(fields, _VERSION)


def _value(value: messages.ShareSnapshotValue | messages.ShareUpdateValue) -> bytes:
    return _INT16.pack(_VERSION) + encode(value, _VERSION)


def _number(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ParseError(f"{len(data)} bytes without a type or version", 0)
    number: int = _INT16.unpack_from(data)[0]
    return number

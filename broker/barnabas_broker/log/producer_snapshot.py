"""The bytes of a producer snapshot (`<log end offset>.snapshot`): a ProducerState, so that loading
a log need not read it from its start.

    int16 version = 1, uint32 CRC-32C of what follows, int32 count, then per entry: int64
    producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64
    timestamp, int32 coordinator epoch, int64 first offset of the open transaction (-1 none)

A producer with several cached batches has an entry for each, oldest first: a client that repeats
all that it had in flight when the broker died must have every one of them recognized. Kafka writes
the newest only, and where it reads several it keeps the last, which is that one. Not here: which
snapshot to load or remove. Source: Apache Kafka's file, `docs/formats/log.md`.
"""

from __future__ import annotations

import struct

from barnabas_broker.log.producer_state import (
    CACHED_BATCH_COUNT,
    NO_TRANSACTION,
    CachedBatch,
    ProducerEntry,
    ProducerState,
)
from barnabas_protocol.records.checksum import crc32c

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class SnapshotError(Exception):
    """A snapshot that cannot be trusted: the caller discards it and takes the one before."""


def encode_snapshot(state: ProducerState) -> bytes:
    """Return the content of a snapshot file."""
    parts = [b""]
    for entry in state.active():
        *older, newest = entry.batches or [CachedBatch(-1, -1, 0, -1)]
        parts += [
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                *batch,
                entry.coordinator_epoch,
                NO_TRANSACTION,
            )
            for batch in older
        ]
        parts.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                newest.last_sequence,
                newest.last_offset,
                newest.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        )
    parts[0] = _COUNT.pack(len(parts) - 1)
    body = b"".join(parts)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the producers in a snapshot file, for `ProducerState.restore`.

    Raises: SnapshotError for a wrong version, checksum or size.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise SnapshotError(f"{len(data)} bytes are too few")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(f"version {version} is unknown")
    body = data[_HEAD.size :]
    if crc32c(body) != checksum:
        raise SnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{count} entries do not fit {len(body)} bytes")
    producers: dict[int, ProducerEntry] = {}
    for values in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = values
        batches = [CachedBatch(sequence, offset, delta, timestamp)] if offset >= 0 else []
        older = producers.get(producer_id)
        if older is not None and older.producer_epoch == epoch:
            batches = [*older.batches, *batches][-CACHED_BATCH_COUNT:]
        producers[producer_id] = ProducerEntry(
            producer_id,
            epoch,
            batches=batches,
            coordinator_epoch=coordinator_epoch,
            last_timestamp=timestamp,
            transaction_first_offset=first,
        )
    return list(producers.values())

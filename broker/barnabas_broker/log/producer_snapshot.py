"""The bytes of a producer snapshot (`<log end offset>.snapshot`): a ProducerState, so that loading
a log need not read it from its start.

    int16 version = 1, uint32 CRC-32C of what follows, int32 count, then per producer: int64
    producer id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64
    timestamp, int32 coordinator epoch, int64 first offset of the open transaction (-1 none)

Only the newest of a producer's cached batches is stored: after a restart older duplicates are no
longer known. Not here: which snapshot to load or remove. Source: Apache Kafka's file,
`docs/formats/log.md`.
"""

from __future__ import annotations

import struct

import crc32c

from barnabas_broker.log.producer_state import CachedBatch, ProducerEntry, ProducerState

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class SnapshotError(Exception):
    """A snapshot that cannot be trusted: the caller discards it and takes the one before."""


def encode_snapshot(state: ProducerState) -> bytes:
    """Return the content of a snapshot file."""
    parts = [_COUNT.pack(len(state.producers))]
    for entry in state.active():
        newest = entry.batches[-1] if entry.batches else CachedBatch(-1, -1, 0, -1)
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
    body = b"".join(parts)
    return _HEAD.pack(_VERSION, crc32c.crc32c(body)) + body


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
    if crc32c.crc32c(body) != checksum:
        raise SnapshotError("the checksum does not match")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{count} producers do not fit {len(body)} bytes")
    entries: list[ProducerEntry] = []
    for values in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first = values
        batches = [CachedBatch(sequence, offset, delta, timestamp)] if offset >= 0 else []
        entries.append(
            ProducerEntry(
                producer_id,
                epoch,
                batches=batches,
                coordinator_epoch=coordinator_epoch,
                last_timestamp=timestamp,
                transaction_first_offset=first,
            )
        )
    return entries

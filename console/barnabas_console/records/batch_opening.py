"""Opens fetched batches: decompression within bounds, and a first look for bytes to be there.

A batch without them is not decoded (CON-115).

Invariants: nothing becomes larger than `DECOMPRESSED_BYTES_MAX`; what may become large is
decompressed and searched on a thread, in pieces, so that the loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from barnabas_client.consumer.records import ConsumerRecord, FetchedBatch
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.record_reader import RecordReader

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
# What is so small, and becomes no more than so much, takes less than a thread does to begin.
_INLINE_BYTES_MAX: Final = 64 * 1024
_INLINE_DECOMPRESSED_BYTES_MAX: Final = 512 * 1024
PIECE_BYTES: Final = 1024 * 1024


async def open_batch(
    batch: FetchedBatch, needles: Sequence[bytes] = ()
) -> RecordReader[ConsumerRecord] | None:
    """Return what reads the batch; None where one of the needles stands nowhere in it.

    Raises: ParseError for what cannot be read, or would become too large.
    """
    if len(batch.data) <= _INLINE_BYTES_MAX:
        try:
            return _open(batch, needles, _INLINE_DECOMPRESSED_BYTES_MAX)
        except ParseError:
            pass  # too large for here, or broken: the thread finds out which
    return await asyncio.to_thread(_open, batch, needles, DECOMPRESSED_BYTES_MAX)


def _open(
    batch: FetchedBatch, needles: Sequence[bytes], bytes_max: int
) -> RecordReader[ConsumerRecord] | None:
    reader = RecordReader(
        ConsumerRecord,
        batch.topic,
        batch.partition,
        batch.data,
        first_offset=batch.first_offset,
        max_decompressed_bytes=bytes_max,
    )
    if all(_contains(reader, needle) for needle in needles):
        return reader
    return None


def _contains(reader: RecordReader[ConsumerRecord], needle: bytes) -> bool:
    size = reader.size_bytes
    return any(
        reader.contains(needle, start, min(start + PIECE_BYTES + len(needle) - 1, size))
        for start in range(0, size, PIECE_BYTES)
    )

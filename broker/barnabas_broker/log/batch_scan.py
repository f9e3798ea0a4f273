"""Finding batches in the bytes of a segment by hopping from header to header.

Not here: where to start (the indexes) and what to do with a batch. Source: formats.md section 2.
Invariant: positions only grow; a length that cannot be stops the walk, so that it always ends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.env.disk import Buffer, DiskFile
from barnabas_broker.log.errors import CorruptionError
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    read_header,
)

if TYPE_CHECKING:
    from barnabas_broker.log.segment import Segment

Read = Callable[[int, int], Buffer | None]
"""Size and position to bytes; None where they are not in memory."""

# Base offset, batch length, three fields of no interest here, last offset delta.
_PREFIX = struct.Struct(">qi11xi")
# An index entry is at most this far (and a batch) before what is looked for.
_LOOK_BYTES = 4096
_SCAN_BYTES = 1024 * 1024


class WouldBlockError(Exception):
    """The bytes are not in memory: the read belongs into a thread."""


class BatchPlace(NamedTuple):
    """Where a batch is. `last_offset` is inclusive."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(
    segment: Segment, read: Read, position: int, end: int, offset: int
) -> BatchPlace | None:
    """The first batch whose last offset is at or above `offset`, from `position` on; or None.

    `position` must be a batch's start, `end` the end of a batch; the segment is only named in
    errors.
    Raises: WouldBlockError; CorruptionError.
    """
    unpack = _PREFIX.unpack_from
    while position < end:
        data = read(min(_LOOK_BYTES, end - position), position)
        if data is None:
            raise WouldBlockError
        at, available = 0, len(data) - _PREFIX.size
        if available < 0:
            raise CorruptionError(segment.log_path, position, "ends within a batch header")
        while at <= available:
            base_offset, length, last_delta = unpack(data, at)
            if length < BATCH_LENGTH_MIN:
                reason = f"batch length {length}"
                raise CorruptionError(segment.log_path, position + at, reason)
            size = length + LOG_OVERHEAD_BYTES
            if base_offset + last_delta >= offset:
                return BatchPlace(position + at, size, base_offset, base_offset + last_delta)
            at += size
        position += at
    return None


def scan_batches(
    path: str, file: DiskFile, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each whole batch in [position, end); blocks.

    Stops before a batch that reaches behind `end`. The views hold until the next step.
    Raises: CorruptionError at bytes that are no batch; OSError.
    """
    size = _SCAN_BYTES
    while position + HEADER_BYTES <= end:
        view = memoryview(file.read(min(size, end - position), position))
        at, available = 0, len(view)
        size = _SCAN_BYTES
        while available - at >= HEADER_BYTES:
            try:
                header = read_header(view, at)
            except ParseError as error:
                raise CorruptionError(path, position + at, error.reason) from None
            batch_bytes = header[1] + LOG_OVERHEAD_BYTES
            if at + batch_bytes > available:
                size = max(batch_bytes, _SCAN_BYTES)
                break
            yield position + at, header, view[at : at + batch_bytes]
            at += batch_bytes
        if not at and position + max(size, HEADER_BYTES) > end:
            return
        if not at and available < min(size, end - position):
            return
        position += at

"""The record batches of a read: which offsets they hold, which were aborted, and their bytes.

Only headers are looked at. Not here: reading, and who acquires what.

Source: formats.md section 2, KIP-98; SHR-13, SHR-34. Invariant: what is cut out begins and ends
with whole batches, and nothing is copied.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas_broker.env.disk import Buffer
from barnabas_broker.share.acquisition import FetchedBatch
from barnabas_protocol.records.batch import (
    BATCH_LENGTH_MIN,
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL_BIT,
)

# Base offset, batch length, attributes, last offset delta, producer id.
_HEADER: Final = struct.Struct(">qi9xhi16xq")


class _Place(NamedTuple):
    """Where a batch is: the index of its buffer, and its bytes in it."""

    buffer_index: int
    begin: int
    end: int


class FetchedRecords:
    """What was read of one partition."""

    __slots__ = ("_buffers", "_places", "batches")

    def __init__(
        self,
        buffers: Sequence[Buffer],
        batches_max: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Look at up to so many batches; what is behind them, or not whole, counts as not read.

        `aborted`: producer id and first offset of the aborted transactions that overlap the read;
        empty where it does not matter.
        """
        self._buffers = buffers
        self._places: list[_Place] = []
        self.batches: list[FetchedBatch] = []
        aborts = _Aborts(aborted) if aborted else None
        for index, buffer in enumerate(buffers):
            self._scan(index, buffer, batches_max, aborts)

    def _scan(self, index: int, buffer: Buffer, batches_max: int, aborts: _Aborts | None) -> None:
        unpack, batches, places = _HEADER.unpack_from, self.batches, self._places
        position, size = 0, len(buffer)
        while position + HEADER_BYTES <= size and len(batches) < batches_max:
            base_offset, length, attributes, last_delta, producer_id = unpack(buffer, position)
            end = position + LOG_OVERHEAD_BYTES + length
            if length < BATCH_LENGTH_MIN or end > size:
                break
            last_offset = base_offset + last_delta
            is_aborted = aborts is not None and aborts.has(attributes, producer_id, last_offset)
            batches.append(FetchedBatch(base_offset, last_offset, is_aborted))
            places.append(_Place(index, position, end))
            position = end

    def cut(self, first_offset: int, last_offset: int) -> list[Buffer]:
        """Return the bytes of the batches that hold offsets from first to last (SHR-13)."""
        parts: list[Buffer] = []
        begin: _Place | None = None
        end: _Place | None = None
        for batch, place in zip(self.batches, self._places, strict=True):
            if batch.last_offset < first_offset or batch.base_offset > last_offset:
                continue
            if begin is not None and end is not None and place.buffer_index != begin.buffer_index:
                parts.append(self._slice(begin, end))
                begin = None
            begin = begin or place
            end = place
        if begin is not None and end is not None:
            parts.append(self._slice(begin, end))
        return parts

    def _slice(self, begin: _Place, end: _Place) -> Buffer:
        return memoryview(self._buffers[begin.buffer_index])[begin.begin : end.end]


class _Aborts:
    """Which transactions are under way, batch by batch, of those that will be aborted."""

    __slots__ = ("_open", "_pending")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._pending = sorted(aborted, key=lambda one: one[1], reverse=True)
        self._open: set[int] = set()

    def has(self, attributes: int, producer_id: int, last_offset: int) -> bool:
        """Whether the next batch belongs to an aborted transaction."""
        while self._pending and self._pending[-1][1] <= last_offset:
            self._open.add(self._pending.pop()[0])
        if attributes & CONTROL_BIT:
            # The first marker of a producer that has one open is the one that aborts it.
            self._open.discard(producer_id)
            return False
        return bool(attributes & TRANSACTIONAL_BIT) and producer_id in self._open

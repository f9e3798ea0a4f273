"""What a partition log should be: its batches in a list, and every question answered by force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from barnabas_protocol.records.batch import BatchHeader, iterate_headers, read_header
from barnabas_protocol.records.control import ControlType, read_marker
from barnabas_protocol.records.record import Record, decode_records

# How many of a producer's last batches a leader knows again.
KNOWN_BATCHES = 5


class Batch:
    """A batch as it is in the log."""

    __slots__ = ("end", "header", "is_abort", "raw", "records")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.header: BatchHeader = read_header(raw)
        self.end = self.header.last_offset + 1  # the offset behind it
        self.records: list[Record] = decode_records(raw) if self.header.record_count else []
        self.is_abort = (
            self.header.is_control
            and bool(self.records)
            and read_marker(self.records[0]).control_type == ControlType.ABORT
        )

    @property
    def is_data(self) -> bool:
        """Whether it is what a client wrote."""
        return not self.header.is_control


_batch_of = lru_cache(maxsize=2048)(Batch)


def parse(data: bytes) -> list[Batch]:
    """The whole batches in what was read."""
    return [
        _batch_of(data[at : at + header.size_bytes])
        for at, header in iterate_headers(data)
        if at + header.size_bytes <= len(data)
    ]


def open_transactions(batches: Iterable[Batch], below: int | None = None) -> dict[int, int]:
    """Producer id and first offset of each that has not ended, by markers below an offset."""
    begun: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            if below is None or header.base_offset < below:
                begun.pop(header.producer_id, None)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return begun


def aborted_offsets(batches: Iterable[Batch]) -> set[int]:
    """The offsets of data records in aborted transactions."""
    begun: dict[int, list[int]] = {}
    found: set[int] = set()
    for batch in batches:
        header = batch.header
        if header.is_control:
            offsets = begun.pop(header.producer_id, [])
            if batch.is_abort:
                found.update(offsets)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, []).extend(r.offset for r in batch.records)
    return found


def committed_by(batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]) -> list[int]:
    """What a read_committed consumer shows of batches, told these aborted transactions."""
    waiting = sorted((first, producer_id) for producer_id, first in aborted)
    dropping: set[int] = set()
    shown: list[int] = []
    for batch in batches:
        header = batch.header
        while waiting and waiting[0][0] <= header.last_offset:
            dropping.add(waiting.pop(0)[1])
        if header.is_control:
            if batch.is_abort:
                dropping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropping):
            shown += [record.offset for record in batch.records]
    return shown


def first_at(
    batches: Iterable[Batch], timestamp: int, start: int, limit: int
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record at or after a timestamp in [start, limit)."""
    for batch in batches:
        for record in batch.records:
            if start <= record.offset < limit and record.timestamp >= timestamp:
                return record.timestamp, record.offset
    return None


class Known(NamedTuple):
    """A batch that a producer may repeat: last sequence, last offset, records behind the first."""

    last_sequence: int
    last_offset: int
    offset_delta: int


class Producer(NamedTuple):
    """What a leader must know of a producer to judge its next batch."""

    epoch: int
    known: tuple[Known, ...] = ()
    open_first_offset: int = -1

    @property
    def last_sequence(self) -> int:
        """The sequence of its newest record in this epoch, -1 without one."""
        return self.known[-1].last_sequence if self.known else -1


def producers(batches: Sequence[Batch], most: int = KNOWN_BATCHES) -> dict[int, Producer]:
    """What replaying all batches tells of each producer, with so many of its last batches."""
    found: dict[int, Producer] = {}
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        before = found.get(header.producer_id, Producer(header.producer_epoch))
        known = before.known if before.epoch == header.producer_epoch else ()
        first = before.open_first_offset
        if header.is_control:
            first = -1
        else:
            new = Known(header.last_sequence, header.last_offset, header.last_offset_delta)
            known = (*known, new)[-most:]
            if header.is_transactional and first < 0:
                first = header.base_offset
        found[header.producer_id] = Producer(header.producer_epoch, known, first)
    return found

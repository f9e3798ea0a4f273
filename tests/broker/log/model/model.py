"""What a partition log should be: its batches in a list, and every question answered by force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas_protocol.records.batch import BatchHeader, iterate_headers, read_header
from barnabas_protocol.records.control import ControlType, read_marker
from barnabas_protocol.records.record import Record, decode_records


class Batch:
    """A batch as it is in the log."""

    __slots__ = ("header", "is_abort", "raw", "records")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.header: BatchHeader = read_header(raw)
        self.records: list[Record] = decode_records(raw) if self.header.record_count else []
        self.is_abort = (
            self.header.is_control
            and bool(self.records)
            and read_marker(self.records[0]).control_type == ControlType.ABORT
        )

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.header.last_offset + 1


class Transaction(NamedTuple):
    """An ended transaction: its producer, first offset, marker and end."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool


def parse(data: bytes) -> list[Batch]:
    """The batches in what was read."""
    return [
        Batch(data[at : at + header.size_bytes])
        for at, header in iterate_headers(data)
        if at + header.size_bytes <= len(data)
    ]


def transactions(batches: Iterable[Batch]) -> list[Transaction]:
    """All that have ended."""
    begun: dict[int, int] = {}
    found = []
    for batch in batches:
        header = batch.header
        if header.is_control:
            first = begun.pop(header.producer_id, None)
            if first is not None:
                found.append(
                    Transaction(header.producer_id, first, header.base_offset, batch.is_abort)
                )
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return found


def open_transactions(batches: Iterable[Batch]) -> dict[int, int]:
    """Producer id and first offset of each that has not."""
    begun: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            begun.pop(header.producer_id, None)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return begun


def aborted_offsets(batches: Sequence[Batch]) -> set[int]:
    """The offsets of data records in aborted transactions."""
    spans = [t for t in transactions(batches) if t.is_aborted]
    return {
        record.offset
        for batch in batches
        if batch.header.is_transactional and not batch.header.is_control
        for record in batch.records
        if any(
            t.producer_id == batch.header.producer_id
            and t.first_offset <= record.offset < t.marker_offset
            for t in spans
        )
    }


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


def first_at(batches: Iterable[Batch], timestamp: int, start: int) -> tuple[int, int] | None:
    """Timestamp and offset of the first record at or after a timestamp."""
    for batch in batches:
        for record in batch.records:
            if record.offset >= start and record.timestamp >= timestamp:
                return record.timestamp, record.offset
    return None


def epoch_entries(batches: Iterable[Batch], start: int) -> list[tuple[int, int]]:
    """The leader epochs and where each begins, of a log that starts somewhere."""
    entries: list[tuple[int, int]] = []
    for batch in batches:
        if not entries or batch.header.leader_epoch > entries[-1][0]:
            entries.append((batch.header.leader_epoch, batch.header.base_offset))
    covering = [entry for entry in entries if entry[1] <= start]
    if covering:
        entries = [(covering[-1][0], start), *entries[len(covering) :]]
    return entries


class Producer(NamedTuple):
    """What a leader must know of a producer to judge its next batch."""

    epoch: int
    last_sequence: int
    open_first_offset: int


def producers(batches: Iterable[Batch]) -> dict[int, Producer]:
    """What replaying all batches tells of each producer."""
    known: dict[int, Producer] = {}
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        before = known.get(header.producer_id, Producer(header.producer_epoch, -1, -1))
        last = before.last_sequence if before.epoch == header.producer_epoch else -1
        first = before.open_first_offset
        if header.is_control:
            first = -1
        else:
            last = header.last_sequence
            if header.is_transactional and first < 0:
                first = header.base_offset
        known[header.producer_id] = Producer(header.producer_epoch, last, first)
    return known

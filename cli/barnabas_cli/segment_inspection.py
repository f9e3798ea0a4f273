"""Reads segment files: what is in them, and the first place where they are damaged.

Works on files that nobody has open, and on those of a running broker: then the last batch may be
half written. Nothing is changed. Not here: how it is shown (`log_inspect.py`).

Source: formats.md, and the indexes of Kafka's `DumpLogSegments`. Invariants: a damaged batch ends
the reading of its file, because what follows cannot be told from noise; index entries are compared
with the batches before that.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from barnabas_protocol.records.record import Record, decode_records

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")

OnBatch = Callable[[int, BatchHeader, "list[Record] | None"], None]


@dataclass(slots=True, kw_only=True)
class SegmentReport:
    """What one segment holds; offsets are inclusive and -1 where there are none."""

    path: Path
    base_offset: int
    size_bytes: int = 0
    readable_bytes: int = 0
    batch_count: int = 0
    record_count: int = 0
    control_batch_count: int = 0
    transactional_batch_count: int = 0
    compressions: dict[int, int] = field(default_factory=dict)
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp_ms: int = -1
    last_timestamp_ms: int = -1
    index_entry_counts: dict[str, int] = field(default_factory=dict)
    aborted_transactions: list[dict[str, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # Where each batch starts, its first and last offset and its largest timestamp.
    places: list[tuple[int, int, int, int]] = field(default_factory=list)


def inspect_segment(
    path: Path, *, with_records: bool = False, on_batch: OnBatch | None = None
) -> SegmentReport:
    """Read a `.log` file and the indexes beside it.

    `on_batch` sees every good batch in order, with its records where `with_records` asks for them.
    Raises: OSError.
    """
    report = SegmentReport(path=path, base_offset=_base_offset(path))
    report.size_bytes = path.stat().st_size
    if report.size_bytes:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            _read_batches(view, report, with_records, on_batch)
    _check_offset_index(report)
    _check_time_index(report)
    _check_transaction_index(report)
    return report


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _read_batches(
    view: memoryview, report: SegmentReport, with_records: bool, on_batch: OnBatch | None
) -> None:
    position, size = 0, len(view)
    expected = report.base_offset
    while position < size:
        # Kafka may preallocate files: zeros to the end are room, not damage.
        if size - position < HEADER_BYTES or not any(view[position : position + HEADER_BYTES]):
            if any(view[position:]):
                report.problems.append(f"position {position}: a batch is cut off")
            break
        try:
            header = _whole_batch(view, position)
            if header.base_offset < expected:
                raise ParseError(
                    f"base offset {header.base_offset} where at least {expected} must follow", 0
                )
            records = decode_records(view, position) if with_records else None
        except ParseError as error:
            report.problems.append(f"position {position}: {error.reason}")
            break
        _count(report, position, header)
        if on_batch is not None:
            on_batch(position, header, records)
        expected = header.last_offset + 1
        position += header.size_bytes
        report.readable_bytes = position


def _whole_batch(view: memoryview, position: int) -> BatchHeader:
    header = read_header(view, position)
    end = position + header.size_bytes
    if end > len(view):
        raise ParseError(f"the batch is cut off: {len(view) - position} of {header.size_bytes}", 0)
    if not check_crc(view, position, header):
        raise ParseError(f"the checksum of the batch at offset {header.base_offset} is wrong", 0)
    return header


def _count(report: SegmentReport, position: int, header: BatchHeader) -> None:
    report.batch_count += 1
    report.record_count += header.record_count
    report.control_batch_count += header.is_control
    report.transactional_batch_count += header.is_transactional
    codec = header.compression
    report.compressions[codec] = report.compressions.get(codec, 0) + 1
    if report.first_offset < 0:
        report.first_offset = header.base_offset
        report.first_timestamp_ms = header.base_timestamp
    report.last_offset = header.last_offset
    report.last_timestamp_ms = max(report.last_timestamp_ms, header.max_timestamp)
    report.places.append((position, header.base_offset, header.last_offset, header.max_timestamp))


def _index_bytes(report: SegmentReport, suffix: str, entry_bytes: int) -> bytes | None:
    """The entries of an index file without the zeros of a preallocated one; None: no such file."""
    path = report.path.with_suffix(suffix)
    if not path.exists():
        return None
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    if len(data) % entry_bytes:
        report.problems.append(f"{path.name}: {len(data)} bytes are no multiple of {entry_bytes}")
    # A last entry may itself end with zeros, so a started entry counts in whole.
    return data[: min(-(-used // entry_bytes), len(data) // entry_bytes) * entry_bytes]


def _check_offset_index(report: SegmentReport) -> None:
    data = _index_bytes(report, ".index", _OFFSET_ENTRY.size)
    if data is None:
        return
    name = report.path.with_suffix(".index").name
    by_position = {place[0]: place for place in report.places}
    previous = (-1, -1)
    entries = list(_OFFSET_ENTRY.iter_unpack(data))
    report.index_entry_counts["offset"] = len(entries)
    for number, (relative, position) in enumerate(entries):
        offset = report.base_offset + relative
        place = by_position.get(position)
        if offset <= previous[0] or position <= previous[1]:
            problem = "does not rise"
        elif place is None and position < report.readable_bytes:
            problem = f"points to position {position}, where no batch begins"
        elif place is None and not report.problems:
            problem = f"points to position {position}, behind the last batch"
        elif place is not None and offset < place[2]:
            problem = f"has offset {offset} for the batch with offsets {place[1]} to {place[2]}"
        else:
            previous = (offset, position)
            continue
        report.problems.append(f"{name}: entry {number} {problem}")
        return


def _check_time_index(report: SegmentReport) -> None:
    data = _index_bytes(report, ".timeindex", _TIME_ENTRY.size)
    if data is None:
        return
    name = report.path.with_suffix(".timeindex").name
    first_offsets = [place[1] for place in report.places]
    previous = (-1, -1)
    entries = list(_TIME_ENTRY.iter_unpack(data))
    report.index_entry_counts["time"] = len(entries)
    for number, (timestamp, relative) in enumerate(entries):
        offset = report.base_offset + relative
        place_number = bisect_right(first_offsets, offset) - 1
        place = report.places[place_number] if place_number >= 0 else None
        # Kafka ends the index of a segment that it closes with the last timestamp once more.
        if timestamp < previous[0] or offset < previous[1]:
            problem = "does not rise"
        elif place is not None and place[3] < timestamp and offset <= report.last_offset:
            problem = f"has timestamp {timestamp}, above all of its batch (at most {place[3]})"
        else:
            previous = (timestamp, offset)
            continue
        report.problems.append(f"{name}: entry {number} {problem}")
        return


def _check_transaction_index(report: SegmentReport) -> None:
    path = report.path.with_suffix(".txnindex")
    if not path.exists():
        return
    data = path.read_bytes()
    whole = len(data) - len(data) % _TRANSACTION_ENTRY.size
    if whole != len(data):
        report.problems.append(f"{path.name}: the last entry is cut off")
    previous = -1
    for version, producer_id, first, last, stable in _TRANSACTION_ENTRY.iter_unpack(data[:whole]):
        number = len(report.aborted_transactions)
        if version != 0 or last <= previous or last < first:
            report.problems.append(f"{path.name}: entry {number} ({first} to {last}) cannot be")
            return
        previous = last
        report.aborted_transactions.append(
            {
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
        )
    report.index_entry_counts["transaction"] = len(report.aborted_transactions)

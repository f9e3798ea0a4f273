"""Making one segment consistent again: counters, indexes, and the cut at the first bad byte.

Blocks; for a thread. Not here: which segments need it and what follows from a cut (`log_loader`).
Source: REC-1, REC-2; formats.md section 6. Invariant: the indexes that come out are those
that appending the same batches would have made, byte for byte.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from barnabas_broker.log.batch_scan import scan_batches
from barnabas_broker.log.errors import CorruptionError, SegmentRenamedError
from barnabas_broker.log.holes import ANYWHERE
from barnabas_broker.log.index_file import last_entry
from barnabas_broker.log.layout import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_broker.log.offset_index import ENTRY as OFFSET_ENTRY
from barnabas_broker.log.offset_index import OffsetIndex
from barnabas_broker.log.producer_replay import apply_batch
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_broker.log.time_index import ENTRY as TIME_ENTRY
from barnabas_broker.log.time_index import NO_TIMESTAMP, TimeIndex
from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, read_header

_logger = logging.getLogger(__name__)
_ZERO_READ_BYTES = 1024 * 1024


class ScanResult(NamedTuple):
    """Where the good batches of a segment end. `cut_reason` is None if all bytes were good.

    `gap_end`: where the last gap between batches ends, 0 if there is none.
    """

    next_offset: int
    cut_reason: str | None
    gap_end: int


def load_checked_indexes(
    segment: Segment, interval_bytes: int, *, is_durable: bool = True
) -> tuple[OffsetIndex, TimeIndex]:
    """The indexes of a segment that is not active, rebuilt if missing or damaged (REC-2).

    They are not kept in the segment. `is_durable`: in a thread, as `rebuild_indexes`.
    Raises: OSError, CorruptionError.
    """
    try:
        offset_index, time_index = segment.load_indexes()
    except SegmentRenamedError:
        raise
    except FileNotFoundError:
        return rebuild_indexes(segment, interval_bytes, is_durable=is_durable)
    is_damaged = offset_index.trim(segment.size_bytes) or time_index.trim()
    if is_damaged or (time_index.count and time_index.count > offset_index.count + 1):
        return rebuild_indexes(segment, interval_bytes, is_durable=is_durable)
    return offset_index, time_index


def rebuild_indexes(
    segment: Segment, interval_bytes: int, *, is_durable: bool = True
) -> tuple[OffsetIndex, TimeIndex]:
    """Write both index files of a closed segment anew. Raises: OSError, CorruptionError.

    `is_durable`: wait for the device, in a thread; else the next flush of the segment does.
    """
    scratch = Segment(
        segment.disk, segment.directory, segment.base_offset, created_ms=segment.created_ms
    )
    scratch.name_suffix = segment.name_suffix
    start_empty(scratch)
    with segment.opened() as log_file:
        for _, header, _ in scan_batches(segment.log_path, log_file, 0, segment.size_bytes):
            scratch.note_batch(
                header.last_offset, _timestamp(header), header.size_bytes, interval_bytes
            )
    scratch.append_final_entry()
    assert scratch.offset_index is not None
    assert scratch.time_index is not None
    files = segment.open_files(INDEX_SUFFIX, TIME_INDEX_SUFFIX, create=True)
    for file, index in zip(files, (scratch.offset_index, scratch.time_index), strict=True):
        file.truncate(0)
        file.write_at(index.entries, 0)
        if is_durable:
            file.sync()
        file.close()
    scratch.offset_index.mark_written(len(scratch.offset_index.entries))
    scratch.time_index.mark_written(len(scratch.time_index.entries))
    return scratch.offset_index, scratch.time_index


def read_largest_timestamp(segment: Segment, interval_bytes: int) -> int:
    """The largest timestamp of the batches, -1 if there is none.

    Read from the end of the time index where it is not known. That is looked at with mistrust,
    since retention relies on it: what lies behind the last entries is read too, and both indexes
    are made anew if they end too early, as earlier releases could leave them. For a thread.
    Raises: OSError, CorruptionError.
    """
    if segment.largest_timestamp_offset < 0:
        timestamp, offset = _read_time_index_end(segment, interval_bytes)
        # In this order, and only when both are read: other threads look at them meanwhile.
        segment.largest_timestamp = timestamp
        segment.largest_timestamp_offset = offset
    return segment.largest_timestamp


def _read_time_index_end(segment: Segment, interval_bytes: int) -> tuple[int, int]:
    try:
        offset_file, time_file = segment.open_files(INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    except SegmentRenamedError:
        raise
    except FileNotFoundError:
        return rebuild_indexes(segment, interval_bytes)[1].last()
    try:
        entry = last_entry(offset_file, OFFSET_ENTRY)
        position = 0 if entry is None else entry[1]
        entry = last_entry(time_file, TIME_ENTRY)
    finally:
        offset_file.close()
        time_file.close()
    timestamp, relative = (NO_TIMESTAMP, 0) if entry is None else entry
    is_whole = 0 <= position <= segment.size_bytes
    try:
        if is_whole:
            with segment.opened() as file:
                for _, header, _ in scan_batches(
                    segment.log_path, file, position, segment.size_bytes
                ):
                    is_whole = is_whole and _timestamp(header) <= timestamp
    except CorruptionError:
        is_whole = False  # the entry leads nowhere
    if is_whole:
        return timestamp, segment.base_offset + relative
    _logger.warning("%s: its indexes end too early and are made anew", segment.log_path)
    return rebuild_indexes(segment, interval_bytes)[1].last()


def start_empty(segment: Segment) -> None:
    """Give the segment empty indexes in memory and counters to match."""
    base_offset = segment.base_offset
    segment.offset_index = OffsetIndex(segment.path(INDEX_SUFFIX), base_offset)
    segment.time_index = TimeIndex(segment.path(TIME_INDEX_SUFFIX), base_offset)
    segment.size_bytes = segment.bytes_since_entry = 0
    segment.first_timestamp = None
    segment.largest_timestamp, segment.largest_timestamp_offset = NO_TIMESTAMP, base_offset


def resume(segment: Segment, end: int, *, below: int | None = None) -> int:
    """Set the counters to the batches up to byte `end`; returns the next offset.

    Uses the indexes in memory, whose entries must all be right, and reads only behind the last
    entry. `below` stops before the batch that reaches up to that offset; `size_bytes` says where.
    Raises: OSError, CorruptionError.
    """
    assert segment.offset_index is not None
    assert segment.time_index is not None
    segment.largest_timestamp, segment.largest_timestamp_offset = segment.time_index.last()
    position = segment.offset_index.last()[1]
    segment.size_bytes, segment.bytes_since_entry = position, 0
    next_offset = segment.base_offset
    for at, header, _ in scan_batches(segment.log_path, segment.file, position, end):
        if below is not None and header.last_offset >= below:
            break
        next_offset = header.last_offset + 1
        if _timestamp(header) > segment.largest_timestamp:
            segment.largest_timestamp = header.max_timestamp
            segment.largest_timestamp_offset = header.last_offset
        segment.size_bytes = at + header.size_bytes
    segment.bytes_since_entry = segment.size_bytes - position
    load_first_timestamp(segment)
    return next_offset


def load_first_timestamp(segment: Segment) -> None:
    """Read the first batch's timestamp, from which rolling by time is measured (SEG-1)."""
    segment.first_timestamp = None
    if segment.size_bytes:
        with segment.opened() as file:
            for _, header, _ in scan_batches(segment.log_path, file, 0, segment.size_bytes):
                segment.first_timestamp = header.max_timestamp
                break


def prepare_scan(segment: Segment, from_offset: int) -> tuple[int, int]:
    """Prepare indexes and counters for a scan; returns the position and the offset of its start.

    That is the batch of the last index entry below `from_offset`, which may lie far below it if
    the index was not written up to there: behind it the indexes are made anew. Raises: OSError.
    """
    file_bytes = segment.file.size()
    start_empty(segment)
    try:
        offset_index, time_index = segment.load_indexes()
    except FileNotFoundError:
        return 0, segment.base_offset
    is_damaged = offset_index.trim(file_bytes) | time_index.trim()
    offset_index.truncate_to(from_offset)
    if is_damaged or not offset_index.count:
        return 0, segment.base_offset
    last_offset, position = offset_index.last()
    try:
        header = read_header(segment.file.read(HEADER_BYTES, position))
    except ParseError:
        return 0, segment.base_offset
    if header.last_offset != last_offset:
        return 0, segment.base_offset
    # The entry's own batch is scanned again; it was the first to count towards the next entry.
    time_index.truncate_to(last_offset + 1)
    segment.offset_index, segment.time_index = offset_index, time_index
    segment.size_bytes = position
    segment.largest_timestamp, segment.largest_timestamp_offset = time_index.last()
    return position, header.base_offset


def recover_segment(
    segment: Segment,
    start: tuple[int, int],
    interval_bytes: int,
    state: ProducerState,
    epochs: LeaderEpochs,
    following_base: int | None = None,
    gaps_below: int = ANYWHERE,
) -> ScanResult:
    """Check every batch from `start` on, and cut the file at the first bad byte (REC-1).

    `start` is what `prepare_scan` gave; `state` has applied all batches below it, or below an
    offset behind it, from which it goes on. Zeros behind the last batch are no damage where the
    next segment (`following_base`) begins just there: the file was preallocated. From `gaps_below`
    on, a batch behind a gap is one whose base offset is damaged, which no checksum covers.
    Raises: OSError.
    """
    applied_offset = state.end_offset
    position, next_offset = start
    file_bytes = segment.file.size()
    cut_reason: str | None = None
    gap_end = 0
    found_from = max(next_offset, applied_offset)
    found: list[AbortedTransaction] = []
    try:
        for at, header, batch in scan_batches(segment.log_path, segment.file, position, file_bytes):
            _check(segment, at, header, batch, next_offset, gaps_below)
            if header[0] > next_offset:
                gap_end = header[0]
            if header[0] >= applied_offset:
                aborted = apply_batch(state, header, batch)
                if aborted is not None:
                    found.append(aborted)
            epochs.assign(header[2], header[0])
            segment.note_batch(header.last_offset, _timestamp(header), len(batch), interval_bytes)
            next_offset = header.last_offset + 1
    except (CorruptionError, ParseError) as error:
        cut_reason = str(error)
    if segment.size_bytes < file_bytes:
        if next_offset == following_base and _is_zero(segment, file_bytes):
            cut_reason = None
        else:
            cut_reason = cut_reason or f"{segment.log_path} ends within a batch"
        segment.file.truncate(segment.size_bytes)
    segment.open_transaction_index().restore(found_from, found)
    load_first_timestamp(segment)
    return ScanResult(next_offset, cut_reason, gap_end)


def _is_zero(segment: Segment, end: int) -> bool:
    """Whether there are only zeros behind the last batch."""
    position = segment.size_bytes
    while position < end:
        data = segment.file.read(min(_ZERO_READ_BYTES, end - position), position)
        if not data or any(data):
            return False
        position += len(data)
    return True


def _timestamp(header: BatchHeader) -> int:
    """The largest timestamp that a look-up can find: a batch emptied by compaction has none."""
    return header.max_timestamp if header.record_count else NO_TIMESTAMP


def _check(
    segment: Segment,
    position: int,
    header: BatchHeader,
    batch: memoryview,
    next_offset: int,
    gaps_below: int,
) -> None:
    """Raise CorruptionError unless the batch is whole and in its place."""
    reason = None
    if not check_crc(batch, 0, header):
        reason = "wrong CRC"
    elif header[0] < next_offset or header[6] < 0:
        reason = f"offsets {header[0]} to {header.last_offset} after {next_offset}"
    elif header[0] > next_offset and header[0] >= gaps_below:
        reason = f"offset {header[0]} behind a gap from {next_offset} that was not flushed"
    elif header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        reason = f"offset {header.last_offset} is too far above the segment's base"
    if reason is not None:
        raise CorruptionError(segment.log_path, position, reason)

"""Reading batches of a partition log from its files: by offset and by timestamp.

Works on segments that it is handed; the tail cache and the bounds of the log are the caller's
(`partition_log.py`). A read is a range of positions: only the headers near its two ends are
looked at. The same code reads from memory only, on the loop, or from the device, in a thread.

Source: SEG-5 to SEG-7. Invariants: what is read starts with a whole batch if one was
requested, and never reaches the limit offset.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from barnabas_broker.log.batch_scan import (
    BatchPlace,
    Read,
    WouldBlockError,
    find_batch,
    scan_batches,
)
from barnabas_broker.log.recovery.segment_recovery import (
    load_checked_indexes,
    read_largest_timestamp,
)
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.tail_cache import LogRead
from barnabas_broker.log.time_index import NO_TIMESTAMP
from barnabas_protocol.records.batch import BatchHeader
from barnabas_protocol.records.record_scan import scan_records

INDEX_CACHE_BYTES = 16 * 1024 * 1024
INDEXED_SEGMENTS_MAX = 500
"""Each has a file open, too: a client can make segments of one batch, very many of them."""


class TimestampOffset(NamedTuple):
    """A record found by timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class SegmentSpan(NamedTuple):
    """A segment, where it ends (offset, exclusive) and how many bytes of it may be read."""

    segment: Segment
    end_offset: int
    size_bytes: int


class IndexCache:
    """Bounds the indexes, and the open files, of segments that are not active.

    The least used is first out.
    """

    __slots__ = ("_sizes", "limit_bytes", "size_bytes", "unsynced")

    def __init__(self, limit_bytes: int = INDEX_CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._sizes: OrderedDict[Segment, int] = OrderedDict()
        # Those of all logs that were left and wait for their flush: their files stay open until
        # then. None that has no flush on its way, nor of a log that is closed or out of service.
        self.unsynced: set[Segment] = set()

    def note(self, segment: Segment) -> None:
        """Note that the indexes of `segment`, which is not active, were used or loaded."""
        if segment in self._sizes:
            self._sizes.move_to_end(segment)
            return
        if not segment.has_written_indexes:
            # They are only in memory yet: the flush that writes them notes them.
            return
        size = segment.index_bytes
        self._sizes[segment] = size
        self.size_bytes += size
        while len(self._sizes) > 1 and (
            self.size_bytes > self.limit_bytes or len(self._sizes) > INDEXED_SEGMENTS_MAX
        ):
            oldest, size = self._sizes.popitem(last=False)
            self.size_bytes -= size
            oldest.drop_indexes()
            oldest.release_file()

    def forget(self, segment: Segment) -> None:
        """Stop counting a segment that went away or became active again."""
        self.size_bytes -= self._sizes.pop(segment, 0)
        self.unsynced.discard(segment)


def read_span(
    span: SegmentSpan,
    read: Read,
    offset: int,
    max_bytes: int,
    limit_offset: int,
    *,
    at_least_one: bool,
) -> LogRead | None:
    """The batches of one segment from the one that holds `offset` on; None if it has none.

    The segment's indexes must be in memory. Raises: WouldBlockError if `read` gives nothing;
    OSError, CorruptionError.
    """
    segment, end_offset, end = span
    place = find_batch(segment, read, segment.position_hint(offset), end, offset)
    if place is None:
        return None
    if place.last_offset >= limit_offset:
        return LogRead([], 0)
    limit = end
    if limit_offset < end_offset:
        limit = _limit_position(span, read, place, limit_offset)
    size = min(max_bytes, limit - place.position)
    if size < place.size_bytes:
        size = place.size_bytes if at_least_one else max(size, 0)
    if not size:
        return LogRead([], 0)
    data = read(size, place.position)
    if data is None:
        raise WouldBlockError
    return LogRead([data], len(data))


def _limit_position(span: SegmentSpan, read: Read, first: BatchPlace, limit_offset: int) -> int:
    """Where the first batch that reaches up to `limit_offset` begins."""
    hint = max(span.segment.position_hint(limit_offset), first.position)
    place = find_batch(span.segment, read, hint, span.size_bytes, limit_offset)
    return span.size_bytes if place is None else place.position


def find_timestamp(
    spans: Sequence[SegmentSpan],
    timestamp: int,
    start_offset: int,
    limit_offset: int,
    interval_bytes: int,
) -> TimestampOffset | None:
    """The first record with a timestamp at or above `timestamp` in [start, limit) (SEG-7).

    Blocks, decompresses; for a thread. Raises: OSError, CorruptionError, ParseError.
    """
    for span in spans:
        segment = span.segment
        if span.end_offset <= start_offset or (
            read_largest_timestamp(segment, interval_bytes) < timestamp
        ):
            continue
        offset_index, time_index = segment.offset_index, segment.time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = load_checked_indexes(segment, interval_bytes)
        hint = max(time_index.lookup(timestamp)[1], start_offset)
        position = offset_index.lookup(hint)[1]
        with segment.opened() as file:
            for _, header, batch in scan_batches(segment.log_path, file, position, span.size_bytes):
                if header.base_offset >= limit_offset:
                    return None
                if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                    found = _first_at_or_after(batch, header, timestamp, start_offset)
                    if found is not None:
                        return found if found.offset < limit_offset else None
    return None


def find_largest_timestamp(
    spans: Sequence[SegmentSpan], limit_offset: int, interval_bytes: int
) -> TimestampOffset | None:
    """The first record with the largest timestamp of the log, if it is below the limit.

    Blocks, decompresses; for a thread. Raises: OSError, CorruptionError, ParseError.
    """
    best: SegmentSpan | None = None
    for span in spans:
        largest = read_largest_timestamp(span.segment, interval_bytes)
        if largest > (NO_TIMESTAMP if best is None else best.segment.largest_timestamp):
            best = span
    if best is None:
        return None
    segment = best.segment
    offset_index = segment.offset_index
    if offset_index is None:
        offset_index, _ = load_checked_indexes(segment, interval_bytes)
    position = offset_index.lookup(segment.largest_timestamp_offset)[1]
    with segment.opened() as file:
        for _, header, batch in scan_batches(segment.log_path, file, position, best.size_bytes):
            if header.last_offset >= segment.largest_timestamp_offset:
                found = _first_at_or_after(batch, header, segment.largest_timestamp, 0)
                return found if found is not None and found.offset < limit_offset else None
    return None


def _first_at_or_after(
    batch: memoryview, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    for record_offset, record_timestamp, _ in scan_records(batch):
        if record_timestamp >= timestamp and record_offset >= start_offset:
            return TimestampOffset(record_timestamp, record_offset, header.leader_epoch)
    return None

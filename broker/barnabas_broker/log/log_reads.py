"""Reads of one partition log below its tail cache: which segment, and loop or thread.

Not here: the reading itself (`log_reader.py`). Source: SEG-5 to SEG-7, TXL-7. Invariant:
a thread gets the segments and their sizes as they were when it was started.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TypeVar

from barnabas_broker.env.disk import DiskFile
from barnabas_broker.log.batch_scan import WouldBlockError
from barnabas_broker.log.errors import CorruptionError
from barnabas_broker.log.local_log import LocalLog
from barnabas_broker.log.log_reader import (
    SegmentSpan,
    TimestampOffset,
    find_largest_timestamp,
    find_timestamp,
    read_span,
)
from barnabas_broker.log.recovery.segment_recovery import load_checked_indexes
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.tail_cache import LogRead
from barnabas_broker.log.transaction_index import TransactionIndex
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES

_Result = TypeVar("_Result")
COMMITTED_BATCHES_MAX = 2_000
"""Batches that a reader of committed records gets at a time: each is looked at, in a turn."""
_BATCH_HEAD = struct.Struct(">qi11xi")  # base offset, length, last offset delta


def committed(read: LogRead) -> tuple[LogRead, int]:
    """A read as far as it may be looked at, and the offset behind its last whole batch.

    Aborted transactions that begin there or later are of no use to its reader. A log may have a
    hundred thousand.
    """
    end, left, size = 0, COMMITTED_BATCHES_MAX, 0
    for number, buffer in enumerate(read.buffers):
        position, buffer_size = 0, len(buffer)
        while position + HEADER_BYTES <= buffer_size:
            base_offset, length, last_delta = _BATCH_HEAD.unpack_from(buffer, position)
            following = position + LOG_OVERHEAD_BYTES + length
            if following > buffer_size or following < position + HEADER_BYTES:
                break  # cut, or no batch
            if not left:
                kept = read.buffers[:number]
                if position:
                    kept.append(memoryview(buffer)[:position])
                return LogRead(kept, size + position), end
            left -= 1
            end, position = base_offset + last_delta + 1, following
        size += buffer_size
    return read, end


def _aborted(indexes: Iterable[TransactionIndex], start: int, end: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    if end <= start:
        return found
    for index in indexes:
        entries, is_complete = index.collect(start, end)
        found += [(entry.producer_id, entry.first_offset) for entry in entries]
        if is_complete:
            break
    return found


class LogReads:
    """The reading side of one LocalLog."""

    __slots__ = ("_log",)

    def __init__(self, log: LocalLog) -> None:
        self._log = log

    def read_nowait(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool
    ) -> LogRead | None:
        """Read through the page cache; None where the device would be waited for."""
        log = self._log
        try:
            segment: Segment | None = log.segments.floor(offset)
            while segment is not None:
                if segment.offset_index is None:
                    return None
                if segment is not log.segments.active:
                    log.index_cache.note(segment)
                found = read_span(
                    self._span(segment),
                    self._file(segment).read_nowait,
                    offset,
                    max_bytes,
                    limit_offset,
                    at_least_one=at_least_one,
                )
                if found is not None:
                    return found
                # Compaction or retention left a gap at the segment's end (SEG-5).
                segment = log.segments.after(segment)
        except WouldBlockError:
            return None
        except CorruptionError as error:
            raise _corrupt(error) from error
        except OSError as error:
            raise self._failed(error) from error
        return LogRead([], 0)

    async def read(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool
    ) -> LogRead:
        """Read in a thread."""
        log = self._log
        segment: Segment | None = log.segments.floor(offset)
        while segment is not None:
            # Taken before anything waits: an open file outlives the segment's removal.
            span, file = self._span(segment), self._file(segment)
            if segment.offset_index is None:
                await self._load_indexes(segment)
            found = await self._run(
                partial(
                    read_span,
                    span,
                    file.read,
                    offset,
                    max_bytes,
                    limit_offset,
                    at_least_one=at_least_one,
                )
            )
            if found is not None:
                return found
            segment = log.segments.after(segment)
        return LogRead([], 0)

    def size_between(self, offset: int, limit_offset: int) -> int:
        """The bytes in [offset, limit), never less, by the index entries in memory."""
        log = self._log
        size = 0
        for segment in log.segments.from_offset(offset):
            if segment.base_offset >= limit_offset:
                break
            size += segment.size_bytes
            if segment.base_offset < offset:
                size -= segment.position_hint(offset)
        return size

    async def offset_for_timestamp(
        self, timestamp_ms: int, start_offset: int, limit_offset: int
    ) -> TimestampOffset | None:
        """The first record at or after a timestamp in [start, limit)."""
        log = self._log
        log.check_online()
        return await self._run(
            partial(
                find_timestamp,
                self._spans(),
                timestamp_ms,
                start_offset,
                limit_offset,
                log.config.index_interval_bytes,
            )
        )

    async def max_timestamp_offset(self, limit_offset: int) -> TimestampOffset | None:
        """The first record with the largest timestamp, None if that is not below the limit."""
        log = self._log
        log.check_online()
        return await self._run(
            partial(
                find_largest_timestamp,
                self._spans(),
                limit_offset,
                log.config.index_interval_bytes,
            )
        )

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions that overlap [start, end)."""
        self._log.check_online()
        return _aborted(self._transaction_indexes(start), start, end)

    def with_aborted(self, read: LogRead, start: int) -> tuple[LogRead, list[tuple[int, int]]]:
        """As far as a read may be looked at, it and the aborted transactions that overlap it.

        Nobody looks at one where nothing was aborted, as nearly always.
        """
        self._log.check_online()
        indexes = self._transaction_indexes(start)
        first = next(indexes, None)
        if first is None:
            return read, []
        read, end = committed(read)
        return read, _aborted(chain([first], indexes), start, end)

    def _transaction_indexes(self, start: int) -> Iterator[TransactionIndex]:
        """Those that are not empty, which are few, of the segments from an offset on."""
        try:
            for segment in self._log.segments.from_offset(start):
                index = segment.transaction_index
                if index is None:
                    index = segment.open_transaction_index()
                if index:
                    yield index
        except OSError as error:
            raise self._failed(error) from error

    def _span(self, segment: Segment) -> SegmentSpan:
        log = self._log
        end_offset = log.segments.end_offset(segment, log.log_end_offset)
        return SegmentSpan(segment, end_offset, segment.size_bytes)

    def _spans(self) -> list[SegmentSpan]:
        return [self._span(segment) for segment in self._log.segments.values()]

    async def _load_indexes(self, segment: Segment) -> None:
        """Bring the indexes of a closed segment into memory, where the index cache bounds them."""
        log = self._log
        indexes = await self._run(
            partial(load_checked_indexes, segment, log.config.index_interval_bytes)
        )
        if segment.offset_index is None:
            segment.offset_index, segment.time_index = indexes
            log.index_cache.note(segment)

    def _file(self, segment: Segment) -> DiskFile:
        try:
            return segment.file
        except OSError as error:
            raise self._failed(error) from error

    async def _run(self, work: Callable[[], _Result]) -> _Result:
        """Do work in a thread, with its failures as those of the log."""
        log = self._log
        segments = log.segments.values()
        try:
            try:
                return await log.disk.run(work)
            except FileNotFoundError:
                # A segment was renamed for deletion while the thread opened it: its segment knows
                # the new name by now.
                return await log.disk.run(work)
        except (CorruptionError, ParseError) as error:
            raise _corrupt(error) from error
        except OSError as error:
            if isinstance(error, FileNotFoundError) and log.segments.values() != segments:
                # Its files are gone by now, and rightly: another read gets what is left.
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, "the segment was removed while it was read"
                ) from error
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> KafkaError:
        """Have the directory taken offline; returns what the reader gets (LOG-11)."""
        log = self._log
        log.report_failure(log.fail(log.directory, error))
        return log.storage_error()


def _corrupt(error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error))

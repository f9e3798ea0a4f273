"""Deleting whole segments of a partition log, in steps, so that reads under way can finish.

Out of the map; files renamed to `.deleted`; files removed after `file.delete.delay.ms`. Which
segments go is decided in `retention`. Source: behaviour SEG-10 to SEG-12. Invariants: the log start
offset rises before a segment goes; a start removes what a crash left under a `.deleted` name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas_broker.log.layout import DELETED_FILE_SUFFIX, SEGMENT_SUFFIXES
from barnabas_broker.log.retention import RetainedSegment, RetentionLimits, plan_retention
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.segment_recovery import read_largest_timestamp
from barnabas_broker.log.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas_broker.log.partition_log import PartitionLog

_logger = logging.getLogger(__name__)


class SegmentRemoval:
    """The segments of one log that left it, until their files are gone."""

    __slots__ = ("_due_now", "_log", "_pending", "hand_over")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._due_now: list[Segment] = []
        # Has somebody call `remove_due`; without one, files are removed where they are due.
        self.hand_over: Callable[[SegmentRemoval], None] | None = None
        self._pending: dict[Segment, asyncio.TimerHandle] = {}

    def remove(self, segments: Sequence[Segment]) -> None:
        """Rename the files of segments that are no longer in the map, remove them after the delay.

        Without a running loop they are removed at once. Raises: OSError.
        """
        log = self._log
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        for segment in segments:
            log.index_cache.forget(segment)
            with segment.renaming():
                for suffix in reversed(SEGMENT_SUFFIXES):
                    path = segment.path(suffix)
                    if log.disk.exists(path):
                        log.disk.rename(path, path + DELETED_FILE_SUFFIX)
                # An open file follows its name; one that is opened later must find the new one.
                segment.name_suffix += DELETED_FILE_SUFFIX
            if loop is None:
                self._remove_files(segment)
            else:
                delay = log.config.file_delete_delay_ms / 1000
                self._pending[segment] = loop.call_later(delay, self._due, segment)

    def waiting(self) -> list[Segment]:
        """The segments whose files wait for their removal."""
        return list(self._pending)

    def cancel(self) -> None:
        """Close the files of what waits; the next start removes it."""
        pending, self._pending = self._pending, {}
        self._due_now.clear()
        for segment, handle in pending.items():
            handle.cancel()
            segment.close()

    def _due(self, segment: Segment) -> None:
        if self.hand_over is not None:
            self._due_now.append(segment)
            self.hand_over(self)
            return
        del self._pending[segment]
        try:
            self._remove_files(segment)
        except OSError as error:
            # The files are out of use; the next start tries again.
            _logger.warning("%s could not be removed: %s", segment.log_path, error)

    async def remove_due(self) -> None:
        """Remove the files that are due, in a thread: a large one takes a while."""
        while self._due_now:
            segment = self._due_now.pop(0)
            segment.close()
            try:
                await self._log.disk.run(self._remove_files, segment)
            except OSError as error:
                _logger.warning("%s could not be removed: %s", segment.log_path, error)
            self._pending.pop(segment, None)

    def _remove_files(self, segment: Segment) -> None:
        segment.close()
        for suffix in reversed(SEGMENT_SUFFIXES):
            path = segment.path(suffix)
            if self._log.disk.exists(path):
                self._log.disk.remove(path)


async def delete_old_segments(log: PartitionLog, now_ms: int) -> int:
    """Delete what has outlived its retention; returns how many segments.

    Raises: LogDirectoryError.
    """
    log.check_online()
    segments = log.segments.values()
    try:
        facts = await log.disk.run(
            _facts, segments, log.log_end_offset, log.config.index_interval_bytes
        )
        if log.is_offline or log.segments.values()[: len(segments)] != segments:
            return 0
        config = log.config
        limits = RetentionLimits(
            "delete" in config.cleanup_policy,
            config.retention_ms,
            config.retention_bytes,
            log.log_start_offset,
            log.high_watermark,
        )
        plan = plan_retention(facts, limits, now_ms)
        if plan.has_future_timestamp:
            _logger.warning(
                "%s: segment %d has a timestamp in the future, which blocks retention by time",
                log.directory,
                segments[plan.by_time_count].base_offset,
            )
        count = plan.total_count
        if not count:
            return 0
        if count == len(segments):
            log.write_staged()
            if log.log_end_offset != facts[-1].end_offset:
                # Something was appended while the facts were gathered.
                count -= 1
            else:
                log.roll()
        gone = segments[:count]
        if not gone:
            return 0
        _remove(log, gone)
    except OSError as error:
        if (
            isinstance(error, FileNotFoundError)
            and log.segments.values()[: len(segments)] != segments
        ):
            return 0  # compaction has replaced what was looked at: the next round sees that
        raise log.fail(log.directory, error) from error
    return len(gone)


def _remove(log: PartitionLog, gone: list[Segment]) -> None:
    """Let the log begin behind `gone` and remove those."""
    following = log.segments.after(gone[-1])
    assert following is not None
    log.advance_log_start_offset(following.base_offset)
    log.drop_completed_output()
    log.segments.remove(gone)
    log.closed_segments_bytes -= sum(segment.size_bytes for segment in gone)
    log.removal.remove(gone)
    for offset in [item for item in log.snapshots.offsets if item < following.base_offset]:
        log.snapshots.remove(offset)
    _logger.info(
        "%s: deleted %d segments, the log starts at %d",
        log.directory,
        len(gone),
        log.log_start_offset,
    )


def _facts(
    segments: list[Segment], log_end_offset: int, interval_bytes: int
) -> list[RetainedSegment]:
    """What retention needs to know; reads the ends of time indexes. For a thread."""
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    facts = []
    for segment, end_offset in zip(segments, ends, strict=True):
        largest = read_largest_timestamp(segment, interval_bytes)
        if largest == NO_TIMESTAMP:
            largest = segment.disk.modified_ms(segment.log_path)
        facts.append(RetainedSegment(segment.base_offset, end_offset, segment.size_bytes, largest))
    return facts

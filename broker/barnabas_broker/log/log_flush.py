"""Putting a partition log on the device: fsync, indexes, snapshots, and the recovery point.

The fsync runs in a thread; everything that arrives meanwhile is covered by the next one, so any
number of waiting callers shares it. Not here: when to flush (`log_tasks`, replication).

Source: behaviour SEG-2, SEG-8, LOG-14. Invariants: no recovery point lies behind a record whose
log's topic id is not on the device; the recovery point only rises here, and only to what was
in the file before its fsync began; a segment that is left is flushed with its indexes; those of the
active segment are written only now and then, because recovery makes anew what is missing behind
the last entry (`segment_recovery.prepare_scan`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from barnabas_broker.env.disk import DiskFile
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.index_file import IndexFile, write_index
from barnabas_broker.log.producer_snapshot import encode_snapshot
from barnabas_broker.log.properties_files import PARTITION_METADATA_FILE, sync_topic_id
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from barnabas_broker.log.partition_log import PartitionLog

_logger = logging.getLogger(__name__)

# Indexes and a producer snapshot go with an fsync when this much was written since the last time.
FULL_FLUSH_BYTES = 16 * 1024 * 1024


class _Step(NamedTuple):
    """What is to be done for one segment. `indexes`: the index, the position, the missing bytes.

    The files are open when the flush begins: retention may remove the segment meanwhile.
    """

    segment: Segment
    file: DiskFile
    transaction_index: TransactionIndex | None
    indexes: list[tuple[IndexFile, int, bytes]]


class LogFlush:
    """The flushing side of one PartitionLog."""

    __slots__ = (
        "_flushed_active",
        "_flushed_bytes",
        "_full_flush_bytes",
        "_loaded",
        "_log",
        "_task",
        "is_topic_id_unsynced",
    )

    def __init__(self, log: PartitionLog, *, is_clean: bool) -> None:
        self._log = log
        # What the log was when its files were known to be fit for a clean start; None: they never
        # were.
        self._loaded = self._extent() if is_clean else None
        # Set for a log whose `partition.metadata` the first flush has to make durable.
        self.is_topic_id_unsynced = False
        self._task: asyncio.Task[None] | None = None
        # The active segment at the last flush (None: the next one must be full, with names and
        # indexes), how much of it was flushed, and how much with its indexes.
        self._flushed_active: Segment | None = None
        self._flushed_bytes = 0
        self._full_flush_bytes = 0

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes are not known to be on the device."""
        log = self._log
        recovery_point = log.recovery_point
        if recovery_point >= log.log_end_offset:
            return 0
        active = log.segments.active
        if active is self._flushed_active:
            return active.size_bytes - self._flushed_bytes
        segments = log.segments.from_offset(recovery_point)
        size = sum(segment.size_bytes for segment in segments)
        if segments[0].base_offset < recovery_point:
            size -= segments[0].position_hint(recovery_point)
        return size

    async def flush(self, upto: int | None = None) -> None:
        """Return once everything below `upto` (None: the log end now) is on the device.

        Returns early if the log goes out of service meanwhile: look at the recovery point.
        """
        log = self._log
        log.check_online()
        log.write_staged()
        target = log.log_end_offset if upto is None else upto
        while log.recovery_point < min(target, log.log_end_offset):
            await asyncio.shield(self._start())
            if log.is_offline:
                return

    def start_in_background(self) -> None:
        """Begin a flush that nobody waits for; without a running loop, leave it to a later one."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self._start()

    async def close(self) -> None:
        """Flush everything with final index entries and a snapshot; nothing is appended after."""
        log = self._log
        log.write_staged()
        if self._loaded is not None and self._loaded == self._extent():
            # Nothing to do for a log that nobody wrote: most are, when there are thousands.
            return
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)
            log.check_online()
        active = log.segments.active
        active.append_final_entry()
        try:
            active.trim_file()
        except OSError as error:
            raise log.fail(log.directory, error) from error
        self._flushed_active = None
        await self._flush_once()

    def _extent(self) -> tuple[object, ...]:
        log = self._log
        return (
            log.generation,
            log.log_start_offset,
            log.log_end_offset,
            log.segments.active,
        )

    def note_truncation(self) -> None:
        """Note that the active segment is another one, or shorter."""
        self._flushed_active = None

    def _start(self) -> asyncio.Task[None]:
        task = self._task
        # A task that has ended is replaced at once: whoever waited for it may come here before its
        # callback, and would wait for something that is over, again and again.
        if task is None or task.done():
            task = self._task = asyncio.get_running_loop().create_task(self._flush_once())
            task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Whoever waits gets it too; nobody may wait, and then this is the only trace.
            _logger.error("%s: flush failed: %s", self._log.directory, error)
            if isinstance(error, LogDirectoryError) and self._log.on_disk_failure is not None:
                self._log.on_disk_failure(error)

    async def _flush_once(self) -> None:
        """One flush of all that is written when it begins."""
        log = self._log
        if log.is_offline:
            return
        log.write_staged()
        generation, end_offset, active = log.generation, log.log_end_offset, log.segments.active
        active_bytes = active.size_bytes
        is_full = (
            active is not self._flushed_active
            or active_bytes - self._full_flush_bytes >= FULL_FLUSH_BYTES
        )
        snapshot = encode_snapshot(log.producer_state) if is_full else None
        try:
            steps = [
                _Step(
                    segment,
                    segment.file,
                    segment.transaction_index,
                    _missing(segment) if is_full or segment is not active else [],
                )
                for segment in log.segments.from_offset(log.recovery_point)
            ]
            await log.disk.run(self._write, steps, end_offset, snapshot)
            if generation != log.generation:
                self._undo(steps, end_offset)
                return
            present = set(log.segments.values())
            for step in steps:
                if step.segment not in present:
                    self._remove_indexes(step)
                    continue
                for index, position, data in step.indexes:
                    index.mark_written(position + len(data))
                if step.segment is not log.segments.active:
                    step.segment.release_file()
                    log.index_cache.note(step.segment)
            log.recovery_point = max(log.recovery_point, end_offset)
            self._flushed_active, self._flushed_bytes = active, active_bytes
            if is_full:
                self._full_flush_bytes = active_bytes
                log.snapshots.offsets.add(end_offset)
                log.snapshots.prune(log.segments.base_offsets)
        except OSError as error:
            if not log.is_offline:
                raise log.fail(log.directory, error) from error

    def _write(self, steps: list[_Step], end_offset: int, snapshot: bytes | None) -> None:
        """In a thread: the batches, then the time index, then the offset index, each synced.

        An offset index is therefore never ahead of its time index, which recovery relies on.
        """
        log = self._log
        for step in steps:
            step.file.sync()
            if step.transaction_index is not None:
                step.transaction_index.flush()
            for index, position, data in step.indexes:
                write_index(log.disk, index.path, position, data)
        if snapshot is not None:
            log.leader_epochs.flush()
            log.snapshots.write(end_offset, snapshot, sync=True)
            if self.is_topic_id_unsynced:
                sync_topic_id(log.disk, f"{log.directory}/{PARTITION_METADATA_FILE}")
                self.is_topic_id_unsynced = False
            log.disk.sync_directory(log.directory)

    def _undo(self, steps: list[_Step], end_offset: int) -> None:
        """Take back what was written of a log that was cut meanwhile. Raises: OSError."""
        log = self._log
        self._flushed_active = None
        log.snapshots.remove(end_offset)
        present = {segment.base_offset: segment for segment in log.segments.values()}
        for step in steps:
            if not step.indexes:
                continue
            now = present.get(step.segment.base_offset)
            if now is None:
                self._remove_indexes(step)
            elif now.time_index is not None and now.offset_index is not None:
                for kept in (now.time_index, now.offset_index):
                    write_index(log.disk, kept.path, kept.written_bytes, b"", sync=False)

    def _remove_indexes(self, step: _Step) -> None:
        """Remove what came into being after the segment's own files were renamed."""
        for index, _, _ in step.indexes:
            if self._log.disk.exists(index.path):
                self._log.disk.remove(index.path)


def _missing(segment: Segment) -> list[tuple[IndexFile, int, bytes]]:
    """What the index files of a segment lack, time index first.

    An index that lacks nothing is left alone: compaction may replace a closed segment meanwhile.
    """
    if segment.time_index is None or segment.offset_index is None:
        return []
    indexes: tuple[IndexFile, ...] = (segment.time_index, segment.offset_index)
    return [(index, *index.pending()) for index in indexes if index.missing_bytes]

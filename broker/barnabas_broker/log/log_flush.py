"""Flushing a partition log: fsync, indexes, snapshots, and the recovery point.

The fsync runs in a thread; everything that arrives meanwhile is covered by the next one, so any
number of waiting callers shares it. Not here: when to flush (`log_tasks`, replication).

Source: SEG-2, SEG-8, LOG-14. Invariants: no recovery point lies behind a record whose
log's topic id is not on the device; the recovery point only rises here, and only to what was
in the file before its fsync began. The recovery point says nothing of files: segments whose files
may differ from those on the device are in `_unsynced`, and each flush begins with them.
Indexes of the active segment are written only now and then, because
recovery makes anew what is missing behind the last entry (`segment_recovery.prepare_scan`).
What the thread does it does to open files and to the open folder, never along a path: the log may
be deleted, and another of its name be made, before the thread ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple

from barnabas_broker.env.disk import DiskDirectory, DiskFile
from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.index_file import IndexFile, write_index
from barnabas_broker.log.layout import INDEX_SUFFIX, INDEX_SUFFIXES, TIME_INDEX_SUFFIX
from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_broker.log.local_log import LocalLog
from barnabas_broker.log.producer_replay import SnapshotFiles, write_snapshot
from barnabas_broker.log.producer_snapshot import encode_snapshot
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.log.properties_files import sync_topic_id
from barnabas_broker.log.segment import Segment
from barnabas_broker.log.transaction_index import TransactionIndex

_logger = logging.getLogger(__name__)

# Indexes and a producer snapshot go with an fsync when this much was written since the last time.
FULL_FLUSH_BYTES = 16 * 1024 * 1024


class _MissingEntries(NamedTuple):
    """What the file of an index lacks, and where."""

    target: IndexFile
    name: str
    position: int
    data: bytes


class _Step(NamedTuple):
    """What is to be done for one segment. `sync_names`: index files that have it all, unsynced.

    The files are open when the flush begins: retention may remove the segment meanwhile.
    """

    segment: Segment
    file: DiskFile
    transaction_index: TransactionIndex | None
    indexes: list[_MissingEntries]
    sync_names: list[str]


class LogFlush:
    """Flushes one log: its segments, indexes, snapshots and leader epochs."""

    __slots__ = (
        "_flushed_active",
        "_flushed_bytes",
        "_full_flush_bytes",
        "_holds",
        "_is_planned",
        "_leader_epochs",
        "_loaded",
        "_log",
        "_producer_state",
        "_released",
        "_snapshots",
        "_task",
        "_unsynced",
        "companion",
        "is_topic_id_unsynced",
    )

    def __init__(
        self,
        log: LocalLog,
        producer_state: ProducerState,
        snapshots: SnapshotFiles,
        leader_epochs: LeaderEpochs,
        *,
        is_clean: bool,
        unsynced: Iterable[Segment] = (),
    ) -> None:
        self._log = log
        self._producer_state = producer_state
        self._snapshots = snapshots
        self._leader_epochs = leader_epochs
        # Segments that were left, cut or recovered since their files were last synced, each with
        # an object of its own: what is noted while a flush runs outlives that flush.
        self._unsynced: dict[Segment, object] = {segment: object() for segment in unsynced}
        # What the log was when its files were known to be fit for a clean start; None: they never
        # were.
        self._loaded = self._extent() if is_clean else None
        # Set for a log whose `partition.metadata` the first flush has to make durable.
        self.is_topic_id_unsynced = False
        # Awaited with an offset before what is below it counts as flushed: for a copy that is about
        # to take the log's place, and has to vouch for the same.
        self.companion: Callable[[int], Awaitable[None]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._holds = 0
        self._released: asyncio.Event | None = None  # set when flushes may begin again
        self._is_planned = False  # the flush that runs has looked at the log
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

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let no flush begin until the end of the block: the log's own name is not safe yet."""
        if self._released is None:
            self._released = asyncio.Event()
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._released.set()
                self._released = None

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """As `held`, from the end of the flush that runs: its thread is at the log's files."""
        with self.held():
            task = self._task
            if task is not None and not task.done() and self._is_planned:
                await asyncio.wait((task,))
            yield

    async def settle_cut(self) -> None:
        """Return when no crash can bring back what was cut off the log. Raises: OSError."""
        if self._log.is_cut_unsettled:
            async with self.paused():
                await self._log.settle_cut(self._leader_epochs.flush)

    async def close(self) -> None:
        """Flush everything with final index entries and a snapshot; nothing is appended after."""
        log = self._log
        log.write_staged()
        if not log.segments.active.is_created or self._loaded == self._extent():
            # Nothing to do for a log that nobody wrote: most are, when there are thousands. Where
            # nothing ever was, a leader epoch without records goes, as with a crash.
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
            log.log_end_offset,
            log.segments.active,
            self._leader_epochs.entries,
        )

    def note_topic_id(self) -> None:
        """Have the next flush make the log's `partition.metadata` durable."""
        self.is_topic_id_unsynced = True
        self._flushed_active = None

    def note_truncation(self) -> None:
        """Note that the active segment is another one, or shorter."""
        self._flushed_active = None
        self.note_unsynced(self._log.segments.active)

    def note_unsynced(self, segment: Segment) -> None:
        """Note that files of a segment, `.log` or index, may differ from what is on the device."""
        self._unsynced[segment] = object()

    def flush_left(self, segment: Segment) -> None:
        """Begin a flush of a segment that was just left: its file stays open until then."""
        self.note_unsynced(segment)
        if not (self._log.is_offline or self._log.is_closed):
            self._log.index_cache.unsynced.add(segment)
        self.start_in_background()

    @property
    def unsynced_bases(self) -> set[int]:
        """The base offsets of the segments whose files may not be on the device."""
        return {segment.base_offset for segment in self._unsynced}

    @property
    def synced_below(self) -> int:
        """Segments that end at or below this offset are on the device with all their files."""
        first = min((segment.base_offset for segment in self._unsynced), default=None)
        point = self._log.recovery_point
        return point if first is None else min(first, point)

    def _start(self) -> asyncio.Task[None]:
        task = self._task
        # A task that has ended is replaced at once: whoever waited for it may come here before its
        # callback, and would wait for something that is over, again and again.
        if task is None or task.done():
            self._is_planned = False
            task = self._task = asyncio.get_running_loop().create_task(self._flush_once())
            task.add_done_callback(self._ended)
        return task

    async def ended(self) -> None:
        """Return when no flush runs any more; its failure is raised to those who wait for it."""
        while self._released is not None:  # a cut is being settled
            await self._released.wait()
        while self._task is not None and not self._task.done():
            await asyncio.wait((self._task,))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:
            self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # Whoever waits gets it too; nobody may wait, and then this is the only trace.
            _logger.error("%s: flush failed: %s", self._log.directory, error)
            if isinstance(error, Exception):
                self._log.report_failure(error)
        elif not task.cancelled() and self._is_behind():
            self._start()

    def _is_behind(self) -> bool:
        """Whether a segment was left, or the log was cut, while the last flush ran."""
        log = self._log
        if not self._unsynced or log.is_offline or log.is_closed:
            return False
        active = log.segments.active
        return any(segment is not active for segment in self._unsynced)

    async def _flush_once(self) -> None:
        """One flush of all that is written when it begins."""
        log = self._log
        while self._released is not None:
            await self._released.wait()
        if log.is_offline:
            return
        self._is_planned = True
        log.write_staged()
        generation, end_offset, active = log.generation, log.log_end_offset, log.segments.active
        gap_end = log.gap_end
        log.holes.allow_with(gap_end)
        active_bytes, holes_below = active.size_bytes, log.holes.below
        is_full = (
            active is not self._flushed_active
            or active_bytes - self._full_flush_bytes >= FULL_FLUSH_BYTES
            or gap_end > 0
        )
        snapshot = encode_snapshot(self._producer_state) if is_full else None
        folder: DiskDirectory | None = None
        try:
            steps, noted = self._steps(is_full)
            if snapshot is not None or noted or _new_names(steps):
                folder = log.disk.open_directory(log.directory)
            began_ns = log.clock.monotonic_ns()
            await log.disk.run(self._write, folder, steps, end_offset, snapshot, holes_below)
            log.flush_times.add(log.clock.monotonic_ns() - began_ns)
            if self.companion is not None:
                await self.companion(end_offset)
            if self._log.is_offline:
                return  # its folder may have another name by now, and that name another log
            if generation != log.generation:
                self._undo(steps, end_offset)
                return
            self._settle(steps, noted)
            log.raise_recovery_point(end_offset)
            self._flushed_active, self._flushed_bytes = active, active_bytes
            if is_full:
                self._full_flush_bytes = active_bytes
                log.forget_gap(gap_end)
                self._snapshots.offsets.add(end_offset)
                self._snapshots.prune(log.segments.base_offsets)
        except OSError as error:
            if is_out_of_space(error) and not log.is_offline:
                # No room for indexes and the like: the batches are where they were, and the log
                # stays in service. The next flush does all of it again.
                self._flushed_active = None
                raise LogDirectoryError(log.directory, error) from error
            if not log.is_offline:
                raise log.fail(log.directory, error) from error
        finally:
            if folder is not None:
                folder.close()

    def _settle(self, steps: list[_Step], noted: dict[Segment, object]) -> None:
        """Note what a flush has put on the device. Raises: OSError."""
        log = self._log
        for segment, note in noted.items():
            if self._unsynced.get(segment) is note:
                del self._unsynced[segment]
                log.index_cache.unsynced.discard(segment)
        present = set(log.segments.values())
        for step in steps:
            if step.segment not in present:
                self._remove_indexes(step)
                continue
            for missing in step.indexes:
                missing.target.mark_written(missing.position + len(missing.data))
            if step.segment is not log.segments.active:
                step.segment.release_file()
                if step.transaction_index is not None:
                    step.transaction_index.release_file()
                log.index_cache.note(step.segment)

    def _steps(self, is_full: bool) -> tuple[list[_Step], dict[Segment, object]]:
        """What a flush that begins now has to do, and which unsynced segments it settles."""
        log = self._log
        segments = log.segments.from_offset(log.recovery_point)
        noted: dict[Segment, object] = {}
        if self._unsynced:
            present = set(log.segments.values())
            self._unsynced = {k: note for k, note in self._unsynced.items() if k in present}
            noted = dict(self._unsynced)
            segments = sorted({*segments, *noted}, key=lambda segment: segment.base_offset)
        active = log.segments.active
        steps = []
        for segment in segments:
            is_whole = is_full or segment is not active or segment in noted
            missing = _missing(segment) if is_whole else []
            written = {entries.name for entries in missing}
            names = [segment.name(suffix) for suffix in INDEX_SUFFIXES] if segment in noted else []
            steps.append(
                _Step(
                    segment,
                    segment.file,
                    segment.transaction_index,
                    missing,
                    [name for name in names if name not in written],
                )
            )
        return steps, noted

    def _write(
        self,
        folder: DiskDirectory | None,
        steps: list[_Step],
        end_offset: int,
        snapshot: bytes | None,
        holes_below: int,
    ) -> None:
        """In a thread: the batches, then the time index, then the offset index, each synced.

        An offset index is therefore never ahead of its time index, which recovery relies on.
        """
        log = self._log
        new_names = _new_names(steps) if folder is not None else []
        for step in steps:
            _sync_batches(step.file)
            if step.transaction_index is not None:
                step.transaction_index.flush()
            for missing in step.indexes:
                assert folder is not None
                # A new one without entries is made anew where a power cut takes it away; but the
                # name may be one of an older file's, which must not come back.
                is_needed = bool(missing.data) or folder.exists(missing.name)
                write_index(folder, missing.name, missing.position, missing.data, sync=is_needed)
            for name in step.sync_names:
                assert folder is not None
                _sync_file(folder, name)
        if snapshot is not None:
            assert folder is not None
            self._leader_epochs.flush(folder)
            log.holes.flush(folder, holes_below)
            write_snapshot(folder, end_offset, snapshot)
            if self.is_topic_id_unsynced:
                sync_topic_id(log.disk, folder, log.directory.rpartition("/")[0])
                self.is_topic_id_unsynced = False
        if folder is not None and (snapshot is not None or new_names):
            folder.sync()
        for index in new_names:
            index.is_name_unsynced = False

    def _undo(self, steps: list[_Step], end_offset: int) -> None:
        """Take back what was written of a log that was cut meanwhile. Raises: OSError.

        Indexes of segments that are there still are put right when the cut is settled.
        """
        log = self._log
        self._flushed_active = None
        self._snapshots.remove(end_offset)
        present = {segment.base_offset: segment for segment in log.segments.values()}
        for step in steps:
            if not step.indexes:
                continue
            now = present.get(step.segment.base_offset)
            if now is None:
                self._remove_indexes(step)
            else:
                self.note_unsynced(now)

    def _remove_indexes(self, step: _Step) -> None:
        """Remove what came into being after the segment's own files were renamed."""
        for missing in step.indexes:
            if self._log.disk.exists(missing.target.path):
                self._log.disk.remove(missing.target.path)


def _new_names(steps: Iterable[_Step]) -> list[TransactionIndex]:
    """The indexes of aborted transactions whose files came since their folder was synced."""
    indexes = [step.transaction_index for step in steps]
    return [index for index in indexes if index is not None and index.is_name_unsynced]


def _sync_batches(file: DiskFile) -> None:
    """Sync; a lack of room that shows only now is a failure of the disk: what was written is lost.

    Raises: OSError.
    """
    try:
        file.sync()
    except OSError as error:
        raise OSError(errno.EIO, f"fsync: {error}") from error


def _sync_file(folder: DiskDirectory, name: str) -> None:
    """Put a file on the device, if there is one: most segments have no transaction index."""
    try:
        file = folder.open(name)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def _missing(segment: Segment) -> list[_MissingEntries]:
    """What the index files of a segment lack, time index first.

    An index that lacks nothing is left alone: compaction may replace a closed segment meanwhile.
    """
    if segment.time_index is None or segment.offset_index is None:
        return []
    indexes: tuple[tuple[IndexFile, str], ...] = (
        (segment.time_index, TIME_INDEX_SUFFIX),
        (segment.offset_index, INDEX_SUFFIX),
    )
    return [
        _MissingEntries(index, segment.name(suffix), *index.pending())
        for index, suffix in indexes
        if not index.is_written
    ]

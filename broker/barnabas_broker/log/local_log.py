"""The segments of one partition's log in its directory: staged, written, rolled, cut and replaced.

Used from the loop only. An append is staged at once; `write_staged` puts all batches of a loop turn
into the file with one call, and only then the log end offset moves. Not here: what Kafka knows of
the records (`partition_log.py`), reading (`log_reads.py`), fsync (`log_flush.py`).

Source: LOG-1, LOG-11, SEG-1, SEG-2, REC-5. Invariants: only the active segment grows;
batches are written in the order in which they got their offsets; after an error of the disk nothing
is accepted any more; a process that is killed within a cut leaves a note of it, and the next one
puts the cut on the device before it opens the log.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk, DiskDirectory, DiskFile
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.ballast import is_out_of_space
from barnabas_broker.log.cleaner.cleaned_segment import CleanedSegment
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.index_file import write_index
from barnabas_broker.log.layout import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.recovery.log_loader import LoadedLog
from barnabas_broker.log.recovery.segment_recovery import load_checked_indexes, resume
from barnabas_broker.log.retention import retention_warning
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_broker.log.segment_removal import SegmentRemoval
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_broker.metrics.duration_buckets import DurationBuckets
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

_NEVER = 2**63 - 1
UNSYNCED_SEGMENTS_MAX = 500
"""Segments that wait for a flush, in all logs, before none is begun that can be put off."""
SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions in an index are of 31 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What the logs of a directory share.

    The disk, memory for newest batches and indexes, and how long their flushes take.
    """

    disk: Disk
    clock: Clock
    random: Random
    tail_cache: TailCache
    index_cache: IndexCache
    flush_times: DurationBuckets = field(default_factory=DurationBuckets)


class LocalLog:
    """The segments of one log, and where they end."""

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.disk = context.disk
        self.topic_partition = topic_partition
        self.directory = directory
        self.segments = loaded.segments
        self.holes = loaded.holes
        self._truncation = loaded.truncation
        self.log_end_offset = self.staged_end_offset = loaded.log_end_offset
        # Everything below it is on the device.
        self.recovery_point = loaded.recovery_point
        self.is_offline = False
        self.is_closed = False
        # Compaction's output while a start would put it in service, but it is not yet.
        self._completed_output: CleanedSegment | None = None
        # Rises with every truncation, so that work in threads finds out that its results are old.
        self.generation = 0
        # What a truncation has cut off may come back with a power cut (`settle_cut`).
        self.is_cut_unsettled = False
        # Called when the disk fails where nobody waits: in a flush, or under a read.
        self._on_disk_failure: Callable[[LogDirectoryError], None] | None = None
        self.index_cache = context.index_cache
        self.removal = SegmentRemoval(context.disk, context.index_cache)
        self.tail = context.tail_cache.tail()
        self.clock = context.clock
        self.flush_times = context.flush_times
        self._random = context.random
        # (buffer, size, base offset, last offset, max timestamp) of each batch not yet written.
        self._staged: list[tuple[Buffer, int, int, int, int]] = []
        self._staged_aborted: list[AbortedTransaction] = []
        self._is_preallocated = False
        self._staged_gap_end = 0
        #: Where the last gap ends that was followed and is not flushed, or 0.
        self.gap_end = loaded.gap_end
        self._retention_warning: str | None = None
        self._is_following = False  # what is staged is a leader's: few will read it from here
        self._take_config(config)
        self._reset_active()

    def update_config(self, config: LogConfig) -> None:
        """Take new settings, in force from the next append, read or roll on."""
        self._take_config(config)
        self._set_roll_limits()

    def _take_config(self, config: LogConfig) -> None:
        self.config = config
        self._segment_bytes = config.segment_bytes
        self._interval_bytes = config.index_interval_bytes
        if self.topic_partition.partition == 0:  # once for a topic
            self._warn_of_retention(retention_warning(config))

    def _warn_of_retention(self, warning: str | None) -> None:
        if warning is not None and warning != self._retention_warning:
            logger.warning("topic %s: %s", self.topic_partition.topic, warning)
        self._retention_warning = warning

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches that are written."""
        return self._closed_segments_bytes + self.segments.active.size_bytes

    @property
    def is_empty(self) -> bool:
        """Whether there is no batch, written or staged."""
        return not self._staged and not self.size_bytes

    # ------------------------------------------------------------------ out of service

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log cannot be used any more."""
        if self.is_offline or self.is_closed:
            raise self.storage_error()

    def storage_error(self) -> KafkaError:
        """The error that every call raises when the log is offline."""
        name = f"{self.topic_partition.topic}-{self.topic_partition.partition}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} is offline")

    def fail(self, path: str, cause: OSError) -> LogDirectoryError | KafkaError:
        """Go offline; returns the error to raise (LOG-11).

        A log that is out of service already, because it was deleted for example, may find its files
        gone: that says nothing about the disk.
        """
        if self.is_offline or self.is_closed:
            return self.storage_error()
        self.retire()
        return LogDirectoryError(path, cause)

    def enter_service(
        self,
        on_disk_failure: Callable[[LogDirectoryError], None],
        remove_due: Callable[[SegmentRemoval], None],
    ) -> None:
        """Have disk failures that nobody waits for reported, and segments removed that are due."""
        self._on_disk_failure = on_disk_failure
        self.removal.hand_over = remove_due

    def report_failure(self, error: Exception) -> None:
        """Report a failure of the disk in a flush or under a read, where nobody waits for it."""
        if isinstance(error, LogDirectoryError) and self._on_disk_failure is not None:
            self._on_disk_failure(error)

    def close(self) -> None:
        """Take no more batches and close the files: all that is written was flushed."""
        self.is_closed = True
        self.release_files()

    def retire(self) -> None:
        """Take the log out of service: deleted, or its directory is offline. Files stay open."""
        self.is_offline = True
        self._staged = []
        self.tail.clear()
        self.index_cache.unsynced.difference_update(self.segments.values())

    def release_files(self) -> None:
        """Close all files, when no read can be under way any more."""
        self.tail.clear()
        self.removal.cancel()
        for segment in self.segments.values():
            segment.close()
            self.index_cache.forget(segment)

    def use_tail_cache(self, tail_cache: TailCache) -> None:
        """Keep the newest batches in another cache from now on."""
        self.tail = tail_cache.tail()

    # ------------------------------------------------------------------ append

    def is_full_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch must not go into the active segment (SEG-1)."""
        return (
            (
                size + self._active_bytes > self._segment_bytes
                or max_timestamp > self._roll_timestamp
                or last_offset > self._roll_offset
                or now_ms > self._roll_now_ms
            )
            and (self._active_bytes > 0 or last_offset - self._base_offset > RELATIVE_OFFSET_MAX)
            and not self._may_outgrow(size, last_offset)
        )

    def _may_outgrow(self, size: int, last_offset: int) -> bool:
        """Whether a segment that is full goes on, as very many of all logs wait for a flush.

        Each of them has a file open, and with `segment.ms=1` a client makes one a batch.
        """
        return (
            len(self.index_cache.unsynced) > UNSYNCED_SEGMENTS_MAX
            and size + self._active_bytes <= SEGMENT_BYTES_MAX
            and last_offset - self._base_offset <= RELATIVE_OFFSET_MAX
        )

    def stage(
        self, buffer: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Take a batch of a leader's, which is written with the others of this loop turn."""
        self._is_following = False
        self._staged.append((buffer, size, base_offset, last_offset, max_timestamp))
        self.staged_end_offset = last_offset + 1
        self._active_bytes += size

    def begin_following(self) -> None:
        """Take copies from now on (`stage_copy`). Raises: LogDirectoryError."""
        if not self._is_following:
            # Only a leader's readers are at the end, and a tail has no hole: it begins anew then.
            self.write_staged()
            self.tail.clear()
            self._is_following = True

    def stage_copy(
        self, buffer: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Take a batch that a follower has fetched."""
        if base_offset > self.staged_end_offset:
            self._staged_gap_end = base_offset
        self._staged.append((buffer, size, base_offset, last_offset, max_timestamp))
        self.staged_end_offset = last_offset + 1
        self._active_bytes += size

    def stage_aborted(self, transaction: AbortedTransaction) -> None:
        """Take an entry of the transaction index, which goes with the batch that is staged next."""
        self._staged_aborted.append(transaction)

    def forget_gap(self, gap_end: int) -> None:
        """A flush has noted it, unless another has come meanwhile."""
        if self.gap_end == gap_end:
            self.gap_end = 0

    def discard_staged(self) -> None:
        """Forget what is staged and not written."""
        self._staged, self._staged_aborted = [], []
        self.staged_end_offset = self.log_end_offset
        self._staged_gap_end = 0

    def write_staged(self) -> None:
        """Write what is staged with one call, then move the log end offset and the indexes.

        Raises: LogDirectoryError: the log accepts nothing more; unless there was merely no room,
        its directory has to go offline.
        """
        staged = self._staged
        if not staged:
            return
        self._staged = []
        if self.is_offline:
            # It failed after these were staged: they are never acknowledged.
            return
        segment = self.segments.active
        try:
            self._write(staged, segment)
        except OSError as error:
            if is_out_of_space(error) and not self._is_preallocated:
                # Whole batches of it may be in the file, and were never acknowledged.
                with contextlib.suppress(OSError):
                    segment.file.truncate(segment.size_bytes)
            raise self.fail(segment.log_path, error) from error
        except Exception as error:
            # The file may hold what is not known of, or the other way round: whatever is appended
            # after that would be lost at the next start.
            fault = OSError(errno.EIO, f"the write was left half done: {error!r}")
            raise self.fail(segment.log_path, fault) from error

    def _write(self, staged: list[tuple[Buffer, int, int, int, int]], segment: Segment) -> None:
        buffers = [entry[0] for entry in staged]
        if self._is_preallocated:
            segment.file.write_at(b"".join(buffers), segment.size_bytes)
        else:
            segment.file.append(buffers)
        if self._staged_aborted:
            for aborted in self._staged_aborted:
                segment.open_transaction_index().append(aborted)
            self._staged_aborted = []
        interval_bytes, tail = self._interval_bytes, self.tail
        if segment.first_timestamp is None:
            segment.first_timestamp = staged[0][4]
            self._set_roll_limits()
        before = len(segment.offset_index.entries) if segment.offset_index is not None else 0
        if self._staged_gap_end:
            self.gap_end, self._staged_gap_end = self._staged_gap_end, 0
        if self._is_following:
            for _, size, _, last_offset, max_timestamp in staged:
                segment.note_batch(last_offset, max_timestamp, size, interval_bytes)
                tail.skip(size)
        else:
            for buffer, size, base_offset, last_offset, max_timestamp in staged:
                segment.note_batch(last_offset, max_timestamp, size, interval_bytes)
                tail.append(buffer, size, base_offset, last_offset)
        self.log_end_offset = self.staged_end_offset
        if segment.offset_index is not None and len(segment.offset_index.entries) != before:
            self._check_index_room(segment)

    def roll(self, lowest_base: int = 0) -> Segment | None:
        """Leave the active segment and begin a new one (SEG-2); nothing may be staged.

        It begins at the log end, or at `lowest_base` if that is above it: there is then nothing in
        between. Returns the one that was left; None if the active one is empty and begins there.
        Raises: LogDirectoryError.
        """
        old = self.segments.active
        base_offset = max(self.log_end_offset, lowest_base)
        if old.base_offset == base_offset:
            return None
        try:
            if base_offset > self.log_end_offset:
                self.holes.allow_soon(base_offset)
            old.append_final_entry()
            if self._is_preallocated:
                old.trim_file()
            segment = self._new_segment(base_offset)
            segment.create(self.config.segment_bytes if self.config.preallocate else 0)
            segment.begin_transaction_index()
        except OSError as error:
            raise self.fail(self.directory, error) from error
        self.segments.append(segment)
        self._reset_active()
        self._is_preallocated = self.config.preallocate
        return old

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment(self.disk, self.directory, base_offset, created_ms=self.clock.wall_ms())

    def _reset_active(self) -> None:
        """Take over the counters of the active segment, after it has become another one."""
        active = self.segments.active
        self._base_offset = active.base_offset
        self._active_bytes = active.size_bytes
        self._closed_segments_bytes = self.segments.size_bytes - active.size_bytes
        if self.config.segment_jitter_ms > 0:
            active.roll_jitter_ms = self._random.integer(
                min(self.config.segment_jitter_ms, self.config.roll_ms) + 1
            )
        self._set_roll_limits()

    def _set_roll_limits(self) -> None:
        """Precompute when the active segment is left: four comparisons a batch decide it."""
        active = self.segments.active
        wait_ms = max(self.config.roll_ms - active.roll_jitter_ms, 0)
        first = active.first_timestamp
        self._roll_timestamp = self._roll_now_ms = _NEVER
        if first is not None and first >= 0:
            self._roll_timestamp = first + wait_ms
        else:
            self._roll_now_ms = active.created_ms + wait_ms
        self._roll_offset = active.base_offset + RELATIVE_OFFSET_MAX
        self._check_index_room(active)

    def _check_index_room(self, active: Segment) -> None:
        if active.is_index_full(self.config.segment_index_bytes):
            self._roll_offset = -1

    # ------------------------------------------------------------------ on the device

    def raise_recovery_point(self, offset: int) -> None:
        """Note that everything below an offset is on the device."""
        self.recovery_point = max(self.recovery_point, offset)
        if not self.is_cut_unsettled:
            self._truncation.flushed(self.recovery_point)

    def lower_recovery_point(self, offset: int) -> None:
        """Note that records at or above an offset may not be on the device."""
        self.recovery_point = min(self.recovery_point, offset)

    # ------------------------------------------------------------------ cut

    def truncation_step(self, offset: int, log_start_offset: int) -> int:
        """How far a truncation to `offset` may go before it has to be settled.

        A segment is cut only after the removal of those behind it is settled: a power cut could
        leave a hole between them.
        """
        kept = self.segments.floor(max(offset - 1, 0))
        lowest = max(self.segments.first.base_offset, log_start_offset)
        if offset < lowest or kept is self.segments.active:
            return offset
        following = self.segments.after(kept)
        assert following is not None
        if following.base_offset >= self.log_end_offset:
            return offset  # behind it there is only the empty segment of a roll
        return following.base_offset

    def truncate_to(self, offset: int) -> int:
        """Make `offset`, which lies in the segments, the log end (REC-5); returns the log end.

        That is not lower yet where the empty segment of a roll had to go first: a power cut could
        keep that and the cut, with a hole between them. Raises: OSError.
        """
        self._note_cut(offset)
        self.drop_completed_output()
        # The segment that ends where the offset is stays, an empty one behind it does not (REC-5).
        kept = self.segments.floor(max(offset - 1, 0))
        gone = [item for item in self.segments.values() if item.base_offset > kept.base_offset]
        self.segments.remove(gone)
        self._remove_from_the_end(gone)
        if gone and not any(segment.size_bytes for segment in gone):
            offset = max(offset, min(gone[0].base_offset, self.log_end_offset))
        self.holes.forget_from(offset)
        self._cut(kept, offset)
        self._set_end(offset)
        return offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; one empty segment at `offset` is left. Raises: OSError."""
        self._staged, self._staged_aborted = [], []
        gone = self.segments.values()
        self._note_cut(offset)
        self.drop_completed_output()
        self.segments.remove(gone)
        self._remove_from_the_end(gone)
        segment = self._new_segment(offset)
        segment.create()
        self.segments.append(segment)
        self.holes.forget_from(offset)
        self._set_end(offset)
        self.gap_end, self.recovery_point = 0, offset

    def _remove_from_the_end(self, gone: Sequence[Segment]) -> None:
        """A power cut may keep the first removals only: they leave no hole. Raises: OSError."""
        self.removal.remove(gone[::-1], self.config.file_delete_delay_ms)

    def _set_end(self, offset: int) -> None:
        self.tail.clear()
        self.log_end_offset = self.staged_end_offset = offset
        # A gap below may not be noted yet; which one is the last by now, nobody knows.
        self.gap_end, self._staged_gap_end = min(self.gap_end, offset), 0
        self.lower_recovery_point(offset)
        self._reset_active()

    def _note_cut(self, offset: int) -> None:
        """Note that the log is being cut, in memory and for the next process. Raises: OSError."""
        self.generation += 1
        self.is_cut_unsettled = True
        self._truncation.note(offset, self.recovery_point)

    def _cut(self, segment: Segment, offset: int) -> None:
        """Cut a segment before the batch that reaches up to `offset`; it becomes the active one."""
        self.index_cache.forget(segment)
        if segment.offset_index is None or segment.time_index is None:
            indexes = load_checked_indexes(
                segment, self.config.index_interval_bytes, is_durable=False
            )
            segment.offset_index, segment.time_index = indexes
        end = segment.size_bytes
        segment.offset_index.truncate_to(offset)
        segment.time_index.truncate_to(offset)
        resume(segment, end, below=offset)
        segment.file.truncate(segment.size_bytes)
        segment.open_transaction_index().forget_from(offset)

    async def settle_cut(self, flush_besides: Callable[[DiskDirectory], None]) -> None:
        """Return when no crash can bring back what was cut off. Raises: OSError.

        `flush_besides` is called in the thread with the log's folder. No flush may run meanwhile:
        its thread would write the note of holes and the indexes, too.
        """
        while self.is_cut_unsettled and not self.is_offline:
            self.is_cut_unsettled = False
            try:
                await self._settle_cut_once(flush_besides)
            except BaseException:
                self.is_cut_unsettled = True
                raise

    async def _settle_cut_once(self, flush_besides: Callable[[DiskDirectory], None]) -> None:
        active = self.segments.active
        ends = _index_ends(active)
        folder = self.disk.open_directory(self.directory)
        try:
            await self.disk.run(self._settle_cut, folder, active.file, ends, flush_besides)
        finally:
            folder.close()
        if not self.is_cut_unsettled:
            if active.transaction_index is not None:
                active.transaction_index.is_file_longer = False
            self._truncation.flushed(self.recovery_point)

    def _settle_cut(
        self,
        folder: DiskDirectory,
        file: DiskFile,
        index_ends: list[tuple[str, int]],
        flush_besides: Callable[[DiskDirectory], None],
    ) -> None:
        """In a thread: names and content, the indexes, the rest, and last the note of holes."""
        self._truncation.sync(folder)
        folder.sync()
        file.sync()
        for name, end in index_ends:
            write_index(folder, name, end, b"")
        flush_besides(folder)
        self.holes.flush(folder, self.holes.flushed_below)

    # ------------------------------------------------------------------ whole segments

    def remove_segments(self, gone: Sequence[Segment]) -> None:
        """Remove the oldest segments, which nobody may read any more. Raises: OSError."""
        self.drop_completed_output()
        self.segments.remove(gone)
        self._closed_segments_bytes -= sum(segment.size_bytes for segment in gone)
        self.removal.remove(gone, self.config.file_delete_delay_ms)

    def replace_segments(self, old: Sequence[Segment], output: CleanedSegment) -> None:
        """Put compaction's finished output in the place of segments, in one go on the loop.

        The old files are removed after the usual delay, so reads under way can finish.
        Raises: OSError.
        """
        self._completed_output = None
        self.removal.remove(old, self.config.file_delete_delay_ms)
        segment = output.put_in_service()
        self.segments.replace(old, [segment])
        # What is cached may hold records of aborted transactions that the new index no longer has.
        self.tail.clear()
        self._closed_segments_bytes += segment.size_bytes - sum(item.size_bytes for item in old)

    @property
    def has_completed_output(self) -> bool:
        """Whether a start would put compaction's output in service."""
        return self._completed_output is not None

    def complete_output(self, output: CleanedSegment, modified_ms: int) -> None:
        """Make a start put compaction's output in service, until `drop_completed_output`.

        Raises: OSError.
        """
        output.complete(modified_ms)
        self._completed_output = output

    def is_completed(self, output: CleanedSegment) -> bool:
        """Whether an output was completed and not dropped since."""
        return self._completed_output is output

    def discard_output(self, output: CleanedSegment) -> None:
        """Remove an output, completed or not, that will not be put in service. Raises: OSError."""
        if self._completed_output is output:
            self._completed_output = None
        output.discard()

    def drop_completed_output(self) -> bool:
        """Before segments are cut or removed: have no start put others in their place.

        Returns whether there was something to drop. Raises: OSError.
        """
        output, self._completed_output = self._completed_output, None
        if output is not None:
            output.discard()
        return output is not None

    def rename_directory(self, directory: str) -> None:
        """Give the log's folder another name, on the same disk. Raises: OSError.

        What belongs to the segments finds them there, threads that are at work included.
        """
        with contextlib.ExitStack() as renaming:
            segments = [*self.segments.values(), *self.removal.waiting()]
            for segment in segments:
                renaming.enter_context(segment.renaming())
            self.disk.rename(self.directory, directory)
            self.directory = self.holes.directory = self._truncation.directory = directory
            for segment in segments:
                segment.move_to(directory)


def _index_ends(segment: Segment) -> list[tuple[str, int]]:
    """Where the index files are to end; no offset index is ever ahead of its time index."""
    indexes = ((segment.offset_index, INDEX_SUFFIX), (segment.time_index, TIME_INDEX_SUFFIX))
    ends = [
        (segment.name(suffix), index.written_bytes)
        for index, suffix in indexes
        if index is not None
    ]
    transactions = segment.transaction_index
    if transactions is not None and transactions.is_file_longer:
        ends.append((segment.name(TRANSACTION_INDEX_SUFFIX), transactions.size_bytes))
    return ends

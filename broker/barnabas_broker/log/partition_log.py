"""One partition's log: appending, reading, and the offsets that bound it.

Used from the loop only. An append is checked, stamped and staged at once; `write_staged` puts all
batches of a loop turn into the file with one call, and only then the log end offset moves. Parts:
checks in `validator`, producers in `producer_state`, rolling here, reading in `log_reads`, fsync in
`log_flush`, truncation and deletion in `log_truncation` and `log_deletion`.

Source: behaviour sections 8 to 11. Invariants: log start <= last stable offset <= high watermark <=
log end <= staged end; only the active segment changes; after an error of the disk nothing is
accepted any more (LOG-11).
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.log_deletion import SegmentRemoval, delete_old_segments
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.log_reader import IndexCache, TimestampOffset
from barnabas_broker.log.log_reads import LogReads
from barnabas_broker.log.log_truncation import truncate_fully_and_start_at, truncate_to
from barnabas_broker.log.producer_replay import marker_of
from barnabas_broker.log.recovery import LoadedLog, LogLoading
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_broker.log.tail_cache import LogRead, TailCache
from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_broker.log.validator import BatchValidator, writable
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import (
    BatchHeader,
    check_crc,
    iterate_headers,
    stamp,
)
from barnabas_protocol.records.control import ControlType

__all__ = ["AppendInfo", "LogRead", "PartitionLog"]

_NEVER = 2**63 - 1


class AppendInfo:
    """What became of an append. Offsets are inclusive; those of the original for a duplicate."""

    __slots__ = (
        "first_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp",
        "record_count",
        "size_bytes",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        is_duplicate: bool,
        size_bytes: int,
        record_count: int,
        max_timestamp: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate
        self.size_bytes = size_bytes
        self.record_count = record_count
        self.max_timestamp = max_timestamp


class PartitionLog:
    """One partition's log on disk. Made by `create` or `load`."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        tail_cache: TailCache,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        index_cache: IndexCache | None = None,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.random = random
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.segments = loaded.segments
        self.producer_state = loaded.producer_state
        self.leader_epochs = loaded.leader_epochs
        self.snapshots = loaded.snapshots
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = self.staged_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = loaded.log_start_offset
        self.is_offline = False
        self.is_closed = False
        # Rises with every truncation, so that work in threads finds out that its results are old.
        self.generation = 0
        # Called when a flush that nobody waits for finds that the disk fails.
        self.on_disk_failure: Callable[[LogDirectoryError], None] | None = None
        self.closed_segments_bytes = 0
        self.index_cache = index_cache or IndexCache()
        self.tail = tail_cache.tail()
        self.reads = LogReads(self)
        self.flushing = LogFlush(self)
        self.removal = SegmentRemoval(self)
        # (buffer, size, base offset, last offset, max timestamp) of each batch not yet written.
        self._staged: list[tuple[Buffer, int, int, int, int]] = []
        self._staged_aborted: list[AbortedTransaction] = []
        self._is_preallocated = False
        self._stamped_epoch = -1
        self.update_config(config)
        self.reset_active()

    @classmethod
    def create(
        cls,
        disk: Disk,
        clock: Clock,
        random: Random,
        tail_cache: TailCache,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        index_cache: IndexCache | None = None,
    ) -> PartitionLog:
        """A new log in a directory that exists. Blocks shortly. Raises: LogDirectoryError."""
        try:
            loaded = LogLoading(disk, directory, config, clock.wall_ms()).load(
                recovery_point=0, log_start_offset=0, was_clean=True
            )
        except OSError as error:
            raise LogDirectoryError(directory, error) from error
        return cls(
            disk,
            clock,
            random,
            tail_cache,
            topic_partition,
            topic_id,
            directory,
            config,
            loaded,
            index_cache,
        )

    @classmethod
    async def load(
        cls,
        disk: Disk,
        clock: Clock,
        random: Random,
        tail_cache: TailCache,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        was_clean: bool,
        index_cache: IndexCache | None = None,
    ) -> PartitionLog:
        """The log that is in a directory, recovered in a thread if the stop was not clean.

        The offsets are the checkpointed ones. Raises: LogDirectoryError.
        """
        loading = LogLoading(disk, directory, config, clock.wall_ms())
        try:
            loaded = await disk.run(
                loading.load,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                was_clean=was_clean,
            )
        except OSError as error:
            raise LogDirectoryError(directory, error) from error
        log = cls(
            disk,
            clock,
            random,
            tail_cache,
            topic_partition,
            topic_id,
            directory,
            config,
            loaded,
            index_cache,
        )
        log.advance_high_watermark(high_watermark)
        return log

    # ------------------------------------------------------------------ bounds

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches that are written."""
        return self.closed_segments_bytes + self.segments.active.size_bytes

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes are not known to be on the device."""
        return self.flushing.unflushed_bytes

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided; never above the high watermark (TXL-5)."""
        first_unstable = self.producer_state.first_unstable_offset()
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, at most to the log end; returns whether it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state.advance_high_watermark(offset)
        return True

    def advance_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset, at most to the log end; returns whether it moved.

        Segments that are wholly below it go with the next `delete_old_segments`.
        """
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        if self.high_watermark < offset:
            self.high_watermark = offset
        return True

    async def delete_records(self, offset: int) -> int:
        """Raise the log start offset for a client; -1 = high watermark (SEG-13). Returns it.

        Raises: KafkaError OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION for a
        log that is only compacted.
        """
        self.check_online()
        if "delete" not in self.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted")
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is above the high watermark {self.high_watermark}",
            )
        self.advance_log_start_offset(offset)
        return self.log_start_offset

    # ------------------------------------------------------------------ append

    def append_as_leader(
        self, records: Buffer, leader_epoch: int, *, internal: bool = False, now_ms: int
    ) -> AppendInfo:
        """Check a client's batch, give it offsets and the leader epoch, and stage it.

        The buffer is changed in place and kept: it must not be used again by the caller.
        `internal`: one or several batches made by the broker itself, which are not checked.
        Raises: KafkaError, LogDirectoryError if a segment had to be rolled and that failed.
        """
        if self.is_offline or self.is_closed:
            raise self.storage_error()
        if internal:
            return self._append_internal(records, leader_epoch, now_ms)
        records, header = self._validator.check(records, now_ms)
        if header[9] >= 0:
            repeated = self.producer_state.check(header, now_ms)
            if repeated is not None:
                return AppendInfo(
                    repeated.first_offset,
                    repeated.last_offset,
                    repeated.timestamp if self._is_log_append_time else -1,
                    self.log_start_offset,
                    True,
                    0,
                    0,
                    repeated.timestamp,
                )
        if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
            records = writable(records)
        size, max_timestamp = len(records), header[8]
        first_offset = self.staged_end_offset
        last_offset = first_offset + header[6]
        self._make_room(size, last_offset, max_timestamp, now_ms)
        stamp(records, 0, first_offset, leader_epoch)
        if leader_epoch != self._stamped_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
            self._stamped_epoch = leader_epoch
        self.producer_state.append(header, first_offset)
        self._stage(records, size, first_offset, last_offset, max_timestamp)
        return AppendInfo(
            first_offset,
            last_offset,
            max_timestamp if self._is_log_append_time else -1,
            self.log_start_offset,
            False,
            size,
            header[12],
            max_timestamp,
        )

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Stage batches with the offsets and epochs that the leader gave them (LOG-9).

        A partial batch at the end is dropped. Raises: KafkaError CORRUPT_MESSAGE for a wrong CRC,
        OFFSET_OUT_OF_RANGE for offsets that do not rise; LogDirectoryError.
        """
        self.check_online()
        return self._append_each(memoryview(records), None, self.clock.wall_ms(), check=True)

    def _append_internal(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendInfo:
        view = memoryview(writable(records))
        return self._append_each(view, leader_epoch, now_ms, check=False)

    def _append_each(
        self, view: memoryview, leader_epoch: int | None, now_ms: int, *, check: bool
    ) -> AppendInfo:
        """Stage batches, with offsets of our own if a leader epoch is given."""
        try:
            batches = list(iterate_headers(view))
        except ParseError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.reason) from error
        if not batches:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "no whole record batch")
        if check:
            self._check_follower(view, batches)
        info = AppendInfo(-1, -1, -1, self.log_start_offset, False, 0, 0, -1)
        for position, read in batches:
            header = read
            batch = view[position : position + header.size_bytes]
            if leader_epoch is not None:
                first_offset = self.staged_end_offset
                stamp(batch, 0, first_offset, leader_epoch)
                header = header._replace(base_offset=first_offset, leader_epoch=leader_epoch)
            self._make_room(len(batch), header.last_offset, header.max_timestamp, now_ms)
            self._apply(header, batch)
            self._stage(batch, len(batch), header[0], header.last_offset, header[8])
            if info.first_offset < 0:
                info.first_offset = header[0]
            info.last_offset = header.last_offset
            info.size_bytes += len(batch)
            info.record_count += header[12]
            info.max_timestamp = max(info.max_timestamp, header[8])
        return info

    def _check_follower(self, view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
        """Refuse all of the batches if one is damaged or out of order."""
        expected = self.staged_end_offset
        if not self.size_bytes and not self._staged:
            # An empty log may begin anywhere (LOG-9).
            expected = batches[0][1].base_offset
            if expected > self.log_end_offset:
                self.truncate_fully_and_start_at(expected)
        for position, header in batches:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"offset {header.base_offset} is below {expected}",
                )
            if header.last_offset_delta < 0 or not check_crc(view, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch {header.base_offset}")
            expected = header.last_offset + 1

    def _apply(self, header: BatchHeader, batch: memoryview) -> None:
        """Bring leader epochs and producer state up to a batch that is about to be staged."""
        self.leader_epochs.assign(header.leader_epoch, header.base_offset)
        self._stamped_epoch = header.leader_epoch
        marker = marker_of(batch, header)
        if marker is None:
            if not header.is_control:
                self.producer_state.append(header)
            return
        self.producer_state.check_marker(header, marker.coordinator_epoch)
        completed = self.producer_state.append_marker(
            header,
            is_abort=marker.control_type == ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
        )
        if completed is not None and completed.is_aborted:
            self._staged_aborted.append(self.producer_state.aborted(completed))

    def _stage(
        self, buffer: Buffer, size: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        self._staged.append((buffer, size, base_offset, last_offset, max_timestamp))
        self.staged_end_offset = last_offset + 1
        self._active_bytes += size

    def write_staged(self) -> None:
        """Write what is staged with one call, then move the log end offset and the indexes.

        Raises: LogDirectoryError: the directory has to go offline; the log accepts nothing more.
        """
        staged = self._staged
        if not staged:
            return
        if self.is_offline:
            raise self.storage_error()
        self._staged = []
        segment = self.segments.active
        try:
            buffers = [entry[0] for entry in staged]
            if self._is_preallocated:
                segment.file.write_at(b"".join(buffers), segment.size_bytes)
            else:
                segment.file.append(buffers)
            if self._staged_aborted:
                for aborted in self._staged_aborted:
                    segment.open_transaction_index().append(aborted)
                self._staged_aborted = []
        except OSError as error:
            raise self.fail(segment.log_path, error) from error
        interval_bytes, tail = self._interval_bytes, self.tail
        if segment.first_timestamp is None:
            segment.first_timestamp = staged[0][4]
            self._set_roll_limits()
        before = len(segment.offset_index.entries) if segment.offset_index is not None else 0
        for buffer, size, base_offset, last_offset, max_timestamp in staged:
            segment.note_batch(last_offset, max_timestamp, size, interval_bytes)
            tail.append(buffer, size, base_offset, last_offset)
        self.log_end_offset = self.staged_end_offset
        if segment.offset_index is not None and len(segment.offset_index.entries) != before:
            self._check_index_room(segment)
        if self.log_end_offset - self.recovery_point >= self._flush_messages:
            self.flushing.start_in_background()

    # ------------------------------------------------------------------ roll

    def _make_room(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Roll first if the batch must not go into the active segment (SEG-1)."""
        if (
            size + self._active_bytes > self._segment_bytes
            or max_timestamp > self._roll_timestamp
            or last_offset > self._roll_offset
            or now_ms > self._roll_now_ms
        ) and (self._active_bytes or last_offset - self._base_offset > RELATIVE_OFFSET_MAX):
            self.roll()

    def roll(self) -> None:
        """Write what is staged, leave the active segment and begin a new one (SEG-2).

        The old segment is flushed in the background. Does nothing to an empty segment that begins
        at the log end. Raises: LogDirectoryError.
        """
        self.write_staged()
        old = self.segments.active
        if old.base_offset == self.log_end_offset:
            return
        try:
            old.append_final_entry()
            if self._is_preallocated:
                old.trim_file()
            segment = Segment(
                self.disk,
                self.directory,
                self.log_end_offset,
                created_ms=self.clock.wall_ms(),
            )
            segment.create(self.config.segment_bytes if self.config.preallocate else 0)
            self.snapshots.take(self.producer_state, self.log_end_offset)
        except OSError as error:
            raise self.fail(self.directory, error) from error
        self.index_cache.note(old)
        self.segments.append(segment)
        self.reset_active()
        self._is_preallocated = self.config.preallocate
        self.flushing.start_in_background()

    def reset_active(self) -> None:
        """Take over the counters of the active segment, after it has become another one."""
        active = self.segments.active
        self._base_offset = active.base_offset
        self._active_bytes = active.size_bytes
        self._stamped_epoch = -1
        self.closed_segments_bytes = self.segments.size_bytes - active.size_bytes
        if self.config.segment_jitter_ms > 0:
            active.roll_jitter_ms = self.random.integer(
                min(self.config.segment_jitter_ms, self.config.segment_ms) + 1
            )
        self._set_roll_limits()

    def _set_roll_limits(self) -> None:
        """Precompute when the active segment is left: four comparisons a batch decide it."""
        active = self.segments.active
        wait_ms = self.config.segment_ms - active.roll_jitter_ms
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

    def update_config(self, config: LogConfig) -> None:
        """Take new settings, in force from the next append, read or check on (SEG-14)."""
        self.config = config
        self._validator = BatchValidator(config)
        self._segment_bytes = config.segment_bytes
        self._interval_bytes = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._is_log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._set_roll_limits()

    # ------------------------------------------------------------------ read

    def read_nowait(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> LogRead | None:
        """The batches from the one that holds `offset` on, none that reaches `limit_offset`.

        Only from memory: None = use `read`. Raises: KafkaError OFFSET_OUT_OF_RANGE.
        """
        if self.is_offline:
            raise self.storage_error()
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset or offset == self.log_end_offset:
            return LogRead([], 0)
        found = self.tail.read(offset, max_bytes, limit_offset, at_least_one)
        if found is not None:
            return found
        return self.reads.read_nowait(offset, max_bytes, limit_offset, at_least_one)

    async def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> LogRead:
        """As `read_nowait`, waiting for the device in a thread where that must be."""
        found = self.read_nowait(offset, max_bytes, limit_offset, at_least_one=at_least_one)
        if found is not None:
            return found
        return await self.reads.read(offset, max_bytes, limit_offset, at_least_one)

    def size_between(self, offset: int, limit_offset: int) -> int:
        """About how many bytes can be read in [offset, limit): exact at the tail, else not less."""
        if offset >= limit_offset:
            return 0
        size = self.tail.size_between(offset, limit_offset)
        return self.reads.size_between(offset, limit_offset) if size is None else size

    async def offset_for_timestamp(
        self, timestamp_ms: int, limit_offset: int
    ) -> TimestampOffset | None:
        """The first record at or after a timestamp, in [log start, limit); None without (SEG-7)."""
        return await self.reads.offset_for_timestamp(timestamp_ms, limit_offset)

    async def max_timestamp_offset(self, limit_offset: int) -> TimestampOffset | None:
        """The first record with the largest timestamp, None if that is not below the limit."""
        return await self.reads.max_timestamp_offset(limit_offset)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions that overlap [start, end)."""
        return self.reads.aborted_transactions(start, end)

    # ------------------------------------------------------------------ the rest of its life

    def truncate_to(self, offset: int) -> bool:
        """Make `offset` the log end; above it a no-op (REC-5). Raises: LogDirectoryError."""
        self.check_online()
        return truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is then empty at `offset`. Raises: LogDirectoryError."""
        self.check_online()
        truncate_fully_and_start_at(self, offset)

    async def delete_old_segments(self, now_ms: int) -> int:
        """Delete what has outlived its retention; returns how many segments (SEG-10 to SEG-12)."""
        return await delete_old_segments(self, now_ms)

    async def flush(self, upto: int | None = None) -> None:
        """Return once everything below `upto` (None: the log end) is on the device (SEG-8).

        Calls at the same time share an fsync. Raises: LogDirectoryError.
        """
        await self.flushing.flush(upto)

    async def close(self) -> None:
        """Flush everything, leave snapshot and indexes for a clean start, close the files.

        Raises: LogDirectoryError.
        """
        if self.is_closed or self.is_offline:
            return
        await self.flushing.close()
        self.is_closed = True
        self.release_files()

    def retire(self) -> None:
        """Take the log out of service: deleted, or its directory is offline. Files stay open."""
        self.is_offline = True
        self._staged = []
        self.tail.clear()

    def release_files(self) -> None:
        """Close all files, when no read can be under way any more."""
        self.tail.clear()
        self.removal.cancel()
        for segment in self.segments.values():
            segment.close()
            self.index_cache.forget(segment)

    def discard_staged(self) -> None:
        """Forget what is staged and not written."""
        self._staged, self._staged_aborted = [], []
        self.staged_end_offset = self.log_end_offset

    def fail(self, path: str, cause: OSError) -> LogDirectoryError:
        """Go offline; returns the error to raise (LOG-11)."""
        self.is_offline = True
        return LogDirectoryError(path, cause)

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log cannot be used any more."""
        if self.is_offline or self.is_closed:
            raise self.storage_error()

    def storage_error(self) -> KafkaError:
        """What every call answers when the log is offline."""
        name = f"{self.topic_partition.topic}-{self.topic_partition.partition}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} is offline")

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
        )

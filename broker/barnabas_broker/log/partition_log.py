"""One partition's log: appends, reads, offsets, producers and leader epochs (Kafka's UnifiedLog).

Used from the loop only. Parts: `local_log` (the segments), `log_reads`, `log_flush`, `validator`,
`producer_state`; loading and recovery are in `log_loader`.

Source: behaviour sections 8 to 11; KIP-405 for the two starts. Invariants: log start <= local log
start <= log end; log start <= last stable offset <= high watermark <= log end <= staged end; after
a disk error nothing is accepted or returned any more (LOG-11); whoever truncates a log settles the
truncation before it appends, and before anybody learns where the log ends
(`docs/decisions/0018-no-fsync-on-the-loop.md`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence, Sized
from typing import NamedTuple, cast

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.disk import Buffer, Disk
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.errors import CorruptionError, LogDirectoryError
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE
from barnabas_broker.log.local_log import LocalLog, LogContext
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.log_reader import TimestampOffset
from barnabas_broker.log.log_reads import LogReads
from barnabas_broker.log.producer_replay import marker_of, replay
from barnabas_broker.log.recovery.log_loader import LoadedLog, LogLoader, new_log
from barnabas_broker.log.retention import (
    RetainedSegment,
    RetentionLimits,
    plan_retention,
    retained_segments,
)
from barnabas_broker.log.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas_broker.log.segments import Segments
from barnabas_broker.log.tail_cache import LogRead
from barnabas_broker.log.time_index import NO_TIMESTAMP
from barnabas_broker.log.validator import BatchValidator, CheckedBatch, batches_of, writable
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import (
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    check_crc,
    stamp,
)
from barnabas_protocol.records.control import ControlType

__all__ = ["LogRead", "PartitionLog"]

_logger = logging.getLogger(__name__)

_EPOCH_MAX = 2**31 - 1
# A batch so much smaller than its request is copied: the tail would keep, uncounted, all of that.
PINNED_FACTOR_MAX = 8


class PartitionLog:
    """One partition's log on disk. Made by `create` or `load`."""

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.producer_state = loaded.producer_state
        self.leader_epochs = loaded.leader_epochs
        # The first offset that can be read, and the first that can be read from the files here.
        # Only where older segments are in another place, the second is above the first (KIP-405).
        self.log_start_offset = self.high_watermark = loaded.log_start_offset
        self.local_log_start_offset = loaded.log_start_offset
        # What was there when the log was opened may have been acknowledged as flushed: the recovery
        # point that a crash leaves is an old one.
        self.acknowledged_offset = loaded.log_end_offset
        # Where compaction goes on; None: it never was here.
        self.first_dirty_offset: int | None = None
        # The recovery point and the log start were not written since the log was cut: before that
        # nothing may be appended (`LogManager.note_truncations`).
        self.is_cut_unnoted = False
        self.successor: Successor | None = None
        self.local = LocalLog(context, topic_partition, directory, config, loaded)
        self.flushing = LogFlush(
            self.local,
            loaded.producer_state,
            loaded.snapshots,
            loaded.leader_epochs,
            is_clean=loaded.is_clean,
            unsynced=loaded.unsynced,
        )
        self.clock = context.clock
        self.snapshots = loaded.snapshots
        self.reads = LogReads(self.local)
        self._stamped_epoch = -1
        self._take_config(config)

    @classmethod
    def create(
        cls,
        context: LogContext,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        *,
        is_empty_directory: bool = False,
    ) -> PartitionLog:
        """A new log in a directory that exists. Blocks shortly. Raises: LogDirectoryError."""
        disk, now_ms = context.disk, context.clock.wall_ms()
        if is_empty_directory:
            loaded = new_log(disk, directory, now_ms)
        else:
            try:
                loaded = LogLoader(disk, directory, config, now_ms).load(
                    recovery_point=0, log_start_offset=0, was_clean=True
                )
            except OSError as error:
                raise LogDirectoryError(directory, error) from error
        return cls(context, topic_partition, topic_id, directory, config, loaded)

    @classmethod
    async def load(
        cls,
        context: LogContext,
        topic_partition: TopicPartition,
        topic_id: bytes,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        first_dirty_offset: int | None = None,
        was_clean: bool,
        is_page_cache_lost: bool = False,
    ) -> PartitionLog:
        """The log that is in a directory, recovered in a thread if the stop was not clean.

        The offsets are the checkpointed ones. `is_page_cache_lost`: the machine has been down
        since it was written. Raises: LogDirectoryError.
        """
        loading = LogLoader(
            context.disk,
            directory,
            config,
            context.clock.wall_ms(),
            compacted_below=first_dirty_offset or 0,
            is_page_cache_lost=is_page_cache_lost,
        )
        try:
            loaded = await context.disk.run(
                loading.load,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                was_clean=was_clean,
            )
        except OSError as error:
            raise LogDirectoryError(directory, error) from error
        log = cls(context, topic_partition, topic_id, directory, config, loaded)
        log.advance_high_watermark(high_watermark)
        if first_dirty_offset is not None:
            log.first_dirty_offset = min(first_dirty_offset, log.log_end_offset)
        if not was_clean:
            # The process that made the directory may have been killed before the first flush.
            log.flushing.note_topic_id()
        return log

    # ------------------------------------------------------------------ what it is at the moment

    @property
    def disk(self) -> Disk:
        """The disk that the log is on."""
        return self.local.disk

    @property
    def directory(self) -> str:
        """The path of the log's folder."""
        return self.local.directory

    @property
    def config(self) -> LogConfig:
        """The settings of the topic that hold now."""
        return self.local.config

    @property
    def segments(self) -> Segments:
        """The segments, to be looked at."""
        return self.local.segments

    @property
    def log_end_offset(self) -> int:
        """The next offset to be assigned, of what is written."""
        return self.local.log_end_offset

    @property
    def staged_end_offset(self) -> int:
        """The next offset to be assigned, with what is staged."""
        return self.local.staged_end_offset

    @property
    def recovery_point(self) -> int:
        """Below it every batch is on the device."""
        return self.local.recovery_point

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches that are written."""
        return self.local.size_bytes

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes are not known to be on the device."""
        return self.flushing.unflushed_bytes

    @property
    def generation(self) -> int:
        """Rises with every truncation."""
        return self.local.generation

    @property
    def is_offline(self) -> bool:
        """Whether the log is out of service."""
        return self.local.is_offline

    @property
    def is_cut_unsettled(self) -> bool:
        """Whether a power cut could bring back what was cut off."""
        return self.local.is_cut_unsettled

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR if the log cannot be used any more."""
        self.local.check_online()

    def storage_error(self) -> KafkaError:
        """The error that every call raises when the log is offline."""
        return self.local.storage_error()

    def update_config(self, config: LogConfig) -> None:
        """Take new settings, in force from the next append, read or check on (SEG-14)."""
        self.local.update_config(config)
        self._take_config(config)

    def _take_config(self, config: LogConfig) -> None:
        self._validator = BatchValidator(config)
        self.looks_into_batches = self._validator.looks_into_batches
        self._flush_messages = config.flush_messages
        self._is_log_append_time = config.message_timestamp_type == "LogAppendTime"

    # ------------------------------------------------------------------ offsets

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided; never above the high watermark (TXL-5)."""
        first_unstable = self.producer_state.first_unstable_offset()
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark, at most to the log end; returns whether it moved."""
        offset = min(offset, self.local.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producer_state.advance_high_watermark(offset)
        return True

    def advance_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset, at most to the log end; returns whether it moved.

        Segments that are wholly below it go with the next `delete_old_segments`.
        """
        offset = min(offset, self.local.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.advance_local_log_start_offset(offset)
        self.leader_epochs.truncate_from_start(offset)
        self.advance_high_watermark(offset)
        return True

    def advance_local_log_start_offset(self, offset: int) -> None:
        """Raise the local log start offset alone: what is below it can be read elsewhere."""
        self.local_log_start_offset = max(self.local_log_start_offset, offset)

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
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        internal: bool = False,
        now_ms: int,
        checked: CheckedBatch | None = None,
    ) -> AppendInfo:
        """Check a client's batch, give it offsets and the leader epoch, and stage it.

        The buffer is changed in place and kept: it must not be used again by the caller.
        `internal`: one or several batches made by the broker itself, which are not checked.
        `checked`: what a HeavyBatchError has made of the batch; checked again where the topic's
        settings have changed meanwhile.
        Raises: KafkaError; LogDirectoryError if a segment had to be rolled and that failed;
        HeavyBatchError where checking it here would take too long.
        """
        local = self.local
        if local.is_offline or local.is_closed:
            raise local.storage_error()
        if internal:
            return self._append_internal(records, leader_epoch, now_ms)
        if checked is not None and checked.validator is self._validator:
            records, header = checked.records, checked.header
        else:
            records, header = self._validator.check(records, now_ms)
        if header[9] >= 0:
            repeated = self.producer_state.check(header, now_ms, self.high_watermark)
            if repeated is not None:
                return AppendInfo(
                    repeated.first_offset,
                    repeated.last_offset,
                    repeated.timestamp,  # as in Kafka, whatever the topic's timestamps are
                    self.log_start_offset,
                    True,
                    0,
                    0,
                    repeated.timestamp,
                )
        size, max_timestamp = len(records), header[8]
        if isinstance(records, memoryview):
            if records.readonly or size * PINNED_FACTOR_MAX < len(cast("Sized", records.obj)):
                records = memoryview(bytearray(records))
        elif isinstance(records, bytes):
            records = bytearray(records)
        first_offset = local.staged_end_offset
        last_offset = first_offset + header[6]
        if local.is_full_for(size, last_offset, max_timestamp, now_ms):
            self.roll(last_offset - RELATIVE_OFFSET_MAX)
        stamp(records, 0, first_offset, leader_epoch)
        if leader_epoch != self._stamped_epoch:
            self.leader_epochs.assign(leader_epoch, first_offset)
            self._stamped_epoch = leader_epoch
        self.producer_state.append(header, first_offset, leader_epoch, now_ms)
        local.stage(records, size, first_offset, last_offset, max_timestamp)
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

    def append_as_follower(self, records: Buffer, leader_epoch_max: int = _EPOCH_MAX) -> AppendInfo:
        """Stage batches with the offsets and epochs that the leader gave them (LOG-9).

        A partial batch at the end is dropped, and so is what follows the first batch of a higher
        leader epoch than the one that was fetched under. Raises: KafkaError CORRUPT_MESSAGE for a
        wrong CRC, OFFSET_OUT_OF_RANGE for offsets that do not rise; LogDirectoryError.
        """
        self.check_online()
        view = memoryview(records)
        batches = batches_of(view)
        for index, (_, header) in enumerate(batches):
            if header[2] > leader_epoch_max:
                del batches[index:]
                break
        info = AppendInfo(-1, -1, -1, self.log_start_offset, False, 0, 0, -1)
        if batches:
            self._check_follower(view, batches)
            self.local.begin_following()
            self._append_each(view, batches, None, self.clock.wall_ms(), info)
        return info

    def _append_internal(self, records: Buffer, leader_epoch: int, now_ms: int) -> AppendInfo:
        view = memoryview(writable(records))
        info = AppendInfo(-1, -1, -1, self.log_start_offset, False, 0, 0, -1)
        self._append_each(view, batches_of(view), leader_epoch, now_ms, info)
        return info

    def _append_each(
        self,
        view: memoryview,
        batches: list[tuple[int, BatchHeader]],
        leader_epoch: int | None,
        now_ms: int,
        info: AppendInfo,
    ) -> None:
        """Stage batches, with offsets of our own if a leader epoch is given; `info` sums them."""
        local = self.local
        stage = local.stage_copy if leader_epoch is None else local.stage
        for position, read in batches:
            header, size = read, read[1] + LOG_OVERHEAD_BYTES
            batch = view[position : position + size]
            if leader_epoch is not None:
                first_offset = local.staged_end_offset
                stamp(batch, 0, first_offset, leader_epoch)
                header = BatchHeader(first_offset, read[1], leader_epoch, *read[3:])
            last_offset, max_timestamp = header[0] + header[6], header[8]
            if local.is_full_for(size, last_offset, max_timestamp, now_ms):
                self.roll(last_offset - RELATIVE_OFFSET_MAX)
            self._apply(header, batch, now_ms, is_leader=leader_epoch is not None)
            # No look-up finds a record in a batch that compaction has emptied on the leader.
            found_timestamp = max_timestamp if header[12] else NO_TIMESTAMP
            stage(batch, size, header[0], last_offset, found_timestamp)
            if info.first_offset < 0:
                info.first_offset = header[0]
            info.last_offset = last_offset
            info.size_bytes += size
            info.record_count += header[12]
            if max_timestamp > info.max_timestamp:
                info.max_timestamp = max_timestamp

    def _check_follower(self, view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
        """Refuse all of the batches if one is damaged or out of order."""
        expected = self.staged_end_offset
        if self.local.is_empty:
            # An empty log may begin anywhere (LOG-9).
            expected = batches[0][1].base_offset
            if expected < self.log_end_offset:
                self.truncate_fully_and_start_at(expected)
        for position, header in batches:
            base_offset, last_offset_delta = header[0], header[6]
            if base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {base_offset} is below {expected}"
                )
            if last_offset_delta < 0 or not check_crc(view, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"batch {base_offset}")
            expected = base_offset + last_offset_delta + 1

    def _apply(
        self, header: BatchHeader, batch: memoryview, now_ms: int, *, is_leader: bool
    ) -> None:
        """Bring leader epochs and producer state up to a batch that is about to be staged.

        Only a leader may refuse it: what it has taken, its followers must take too.
        """
        if header[2] != self._stamped_epoch:
            self.leader_epochs.assign(header[2], header[0])
            self._stamped_epoch = header[2]
        if not header[5] & CONTROL_BIT:
            self.producer_state.append(header, heard_ms=now_ms)
            return
        marker = marker_of(batch, header)
        if marker is None:
            return
        if is_leader:
            self.producer_state.check_marker(header, marker.coordinator_epoch)
        completed = self.producer_state.append_marker(
            header,
            is_abort=marker.control_type == ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
            heard_ms=now_ms,
        )
        if completed is not None and completed.is_aborted:
            self.local.stage_aborted(self.producer_state.aborted(completed))

    def write_staged(self) -> None:
        """Write what is staged, then move the log end offset.

        Raises: LogDirectoryError: the log accepts nothing more; unless there was merely no room,
        its directory has to go offline.
        """
        local = self.local
        local.write_staged()
        if local.log_end_offset - local.recovery_point >= self._flush_messages:
            self.flushing.start_in_background()

    def discard_staged(self) -> None:
        """Forget what is staged and not written."""
        self.local.discard_staged()

    def roll(self, lowest_base: int = 0) -> None:
        """Write what is staged, leave the active segment and begin a new one (SEG-2).

        It begins at the log end or, with a hole in between, at `lowest_base`. The old segment is
        flushed in the background; an empty one that begins there stays. Raises: LogDirectoryError.
        """
        self.write_staged()
        left = self.local.roll(lowest_base)
        if left is None:
            return
        try:
            self.snapshots.take(self.producer_state, self.log_end_offset)
        except OSError as error:
            raise self.local.fail(self.directory, error) from error
        self.flushing.flush_left(left)

    # ------------------------------------------------------------------ read

    def read_nowait(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> LogRead | None:
        """The batches from the one that holds `offset` on, none that reaches `limit_offset`.

        Only from memory: None = use `read`. Raises: KafkaError OFFSET_OUT_OF_RANGE.
        """
        local = self.local
        if local.is_offline:
            raise local.storage_error()
        end_offset = local.log_end_offset
        if offset < self.local_log_start_offset or offset > end_offset:
            raise self._out_of_range(offset)
        if offset >= limit_offset or offset == end_offset:
            return LogRead([], 0)
        found = local.tail.read(offset, max_bytes, limit_offset, at_least_one)
        if found is not None:
            return found
        return self.reads.read_nowait(offset, max_bytes, limit_offset, at_least_one)

    def _out_of_range(self, offset: int) -> KafkaError:
        if self.log_start_offset <= offset < self.local_log_start_offset:
            return KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"offset {offset} is below the local log start {self.local_log_start_offset}",
            )
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
        )

    async def read(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> LogRead:
        """As `read_nowait`, waiting for the device in a thread where that must be."""
        found = self.read_nowait(offset, max_bytes, limit_offset, at_least_one=at_least_one)
        if found is not None:
            return found
        return await self.reads.read(offset, max_bytes, limit_offset, at_least_one)

    async def read_with_aborted(
        self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool = True
    ) -> tuple[LogRead, list[tuple[int, int]]]:
        """As `read`, and the aborted transactions of the very segments that were read (TXL-7)."""
        while True:
            segments = self.segments.values()
            found = await self.read(offset, max_bytes, limit_offset, at_least_one=at_least_one)
            if self._begins_with(segments):
                return self.reads.with_aborted(found, offset)

    def size_between(self, offset: int, limit_offset: int) -> int:
        """About how many bytes can be read in [offset, limit): exact at the tail, else not less."""
        if offset >= limit_offset:
            return 0
        size = self.local.tail.size_between(offset, limit_offset)
        return self.reads.size_between(offset, limit_offset) if size is None else size

    async def offset_for_timestamp(
        self, timestamp_ms: int, limit_offset: int
    ) -> TimestampOffset | None:
        """The first record at or after a timestamp in [local log start, limit), or None (SEG-7)."""
        return await self.reads.offset_for_timestamp(
            timestamp_ms, self.local_log_start_offset, limit_offset
        )

    async def max_timestamp_offset(self, limit_offset: int) -> TimestampOffset | None:
        """The first record with the largest timestamp, None if that is not below the limit."""
        return await self.reads.max_timestamp_offset(limit_offset)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions that overlap [start, end)."""
        return self.reads.aborted_transactions(start, end)

    # ------------------------------------------------------------------ flush and cut

    async def flush(self, upto: int | None = None) -> None:
        """Return once everything below `upto` (None: the log end) is on the device (SEG-8).

        Calls at the same time share an fsync. Raises: LogDirectoryError.
        """
        await self.flushing.flush(upto)

    def start_flush(self) -> None:
        """Begin a flush that nobody waits for; without a running loop, leave it to a later one."""
        self.flushing.start_in_background()

    def truncate_to(self, offset: int) -> bool:
        """Make `offset` the log end; above it a no-op (REC-5). Returns whether it was below.

        A crash may undo it until `settle_cut` has returned; it goes no further than
        `truncation_step` says. Raises: LogDirectoryError.
        """
        self.check_online()
        try:
            self.write_staged()
            if offset >= self.log_end_offset:
                # A leader that was deposed before it appended anything has noted an epoch without
                # records: its new leader would let it diverge there again and again.
                # A start after a crash drops that note as well: it need not be settled.
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            first_base = self.segments.first.base_offset
            if offset < first_base or (first_base < offset <= self.log_start_offset):
                # Nothing that is left of the log can be read: it is an empty one, also for a start
                # that still finds the old log start in its checkpoint. A segment that is empty
                # below the log start would be one whose end was lost, for the next one to begin
                # behind.
                self.truncate_fully_and_start_at(offset)
                return True
            self.snapshots.remove_outside(0, offset)
            self.is_cut_unnoted = True
            offset = self.local.truncate_to(offset)
            self._set_end(offset)
            at = self.snapshots.restore_newest(self.producer_state, offset, self.log_start_offset)
            replay(self.producer_state, self.segments.values(), at, offset)
        except OSError as error:
            raise self.local.fail(self.directory, error) from error
        except CorruptionError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        self.producer_state.end_offset = offset
        self.producer_state.advance_high_watermark(self.high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; the log is then empty at `offset`. Raises: LogDirectoryError."""
        self.check_online()
        try:
            self.snapshots.remove_outside(offset, offset - 1)
            self.is_cut_unnoted = True
            self.local.truncate_fully_and_start_at(offset)
        except OSError as error:
            raise self.local.fail(self.directory, error) from error
        self.leader_epochs.clear()
        self.producer_state.clear(offset)
        self._set_end(offset)
        self.log_start_offset = self.local_log_start_offset = self.high_watermark = offset

    def _set_end(self, offset: int) -> None:
        """Bring all that is said of the log down to its new end."""
        self._stamped_epoch = -1
        self.leader_epochs.truncate_from_end(offset)
        self.acknowledged_offset = min(self.acknowledged_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.local_log_start_offset = min(self.local_log_start_offset, offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self.flushing.note_truncation()

    def truncation_step(self, offset: int) -> int:
        """How far a truncation may go before it has to be settled; call again for the rest."""
        return self.local.truncation_step(offset, self.log_start_offset)

    async def settle_cut(self) -> None:
        """Return when no crash can bring back what was cut off the end. Raises: OSError."""
        await self.flushing.settle_cut()

    async def truncate(self, offset: int) -> bool:
        """Make `offset` the log end, whatever crashes; returns whether it was below.

        Nothing else may append meanwhile. Raises: LogDirectoryError, OSError.
        """
        end_offset = self.log_end_offset
        while self.truncate_to(self.truncation_step(offset)):
            await self.settle_cut()
        return self.log_end_offset < end_offset

    # ------------------------------------------------------------------ retention

    async def delete_old_segments(self, now_ms: int) -> int:
        """Delete what has outlived its retention; returns how many segments (SEG-10 to SEG-12).

        Raises: LogDirectoryError.
        """
        local = self.local
        local.check_online()
        if local.is_empty and len(local.segments) == 1:
            return 0
        segments = local.segments.values()
        try:
            facts = await local.disk.run(
                retained_segments, segments, local.log_end_offset, self.config.index_interval_bytes
            )
            if local.is_offline or not self._begins_with(segments):
                return 0
            count = self._count_outlived(facts, now_ms)
            if count == len(segments):
                self.write_staged()
                if local.log_end_offset != facts[-1].end_offset:
                    # Something was appended while the facts were gathered.
                    count -= 1
                else:
                    self.roll()
            if count:
                self._delete(segments[:count])
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self._begins_with(segments):
                return 0  # compaction has replaced what was looked at: the next round sees that
            raise local.fail(self.directory, error) from error
        return count

    def _begins_with(self, segments: Sequence[Segment]) -> bool:
        return self.segments.values()[: len(segments)] == segments

    def _count_outlived(self, facts: Sequence[RetainedSegment], now_ms: int) -> int:
        limits = RetentionLimits.of(self.config, self.log_start_offset, self.high_watermark)
        plan = plan_retention(facts, limits, now_ms)
        if plan.has_future_timestamp:
            _logger.warning(
                "%s: segment %d has a timestamp in the future, which blocks retention by time",
                self.directory,
                facts[plan.by_time_count].base_offset,
            )
        return plan.total_count

    def _delete(self, gone: Sequence[Segment]) -> None:
        """Remove segments, which are nowhere else: the log begins behind them. Raises: OSError."""
        following = self.segments.after(gone[-1])
        assert following is not None
        self.advance_log_start_offset(following.base_offset)
        self.local.remove_segments(gone)
        self.snapshots.remove_outside(following.base_offset, self.log_end_offset)
        _logger.info(
            "%s: deleted %d segments, the log starts at %d",
            self.directory,
            len(gone),
            self.log_start_offset,
        )

    # ------------------------------------------------------------------ the end of its life

    async def close(self) -> None:
        """Flush everything, leave snapshot and indexes for a clean start, close the files.

        Raises: LogDirectoryError.
        """
        local = self.local
        if local.is_closed or local.is_offline:
            return
        await self.flushing.close()
        local.close()

    def retire(self) -> None:
        """Take the log out of service: deleted, or its directory is offline. Files stay open."""
        self.local.retire()

    def release_files(self) -> None:
        """Close all files, when no read can be under way any more."""
        self.local.release_files()

    @property
    def is_being_copied(self) -> bool:
        """Whether a copy in another directory is to take its place."""
        return self.successor is not None and not self.successor.copy.is_offline

    @property
    def replaced_path(self) -> str | None:
        """The name for removal that marks the log's copy as complete for a start, if it is."""
        successor = self.successor
        if successor is None or successor.copy.is_offline:
            return None
        is_complete = successor.copy.log_end_offset == self.log_end_offset
        return successor.replaced_path if is_complete else None

    def rename_directory(self, directory: str) -> None:
        """Give the log's folder another name, on the same disk. Raises: OSError."""
        self.local.rename_directory(directory)
        self.snapshots.directory = directory
        self.leader_epochs.path = f"{directory}/{LEADER_EPOCH_FILE}"


class Successor(NamedTuple):
    """The copy that is to take a log's place, and where the log's own directory is to go then."""

    copy: PartitionLog
    replaced_path: str

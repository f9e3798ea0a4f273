"""One partition's log: what it is for everybody else in the broker.

Used from the loop only. Parts: state and offsets in `log_state`, appending and rolling in
`log_writer`, reading in `log_reads`, fsync in `log_flush`, truncation and deletion in
`log_truncation` and `log_deletion`, loading and recovery in `recovery`.

Source: behaviour sections 8 to 11. Invariant: after an error of the disk nothing is accepted and
nothing is answered any more (LOG-11).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log import log_truncation
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.leader_epochs import LEADER_EPOCH_FILE
from barnabas_broker.log.log_deletion import SegmentRemoval, delete_old_segments
from barnabas_broker.log.log_flush import LogFlush
from barnabas_broker.log.log_reader import IndexCache, TimestampOffset
from barnabas_broker.log.log_reads import LogReads
from barnabas_broker.log.log_writer import LogWriter
from barnabas_broker.log.recovery import LoadedLog, LogLoading
from barnabas_broker.log.tail_cache import LogRead, TailCache
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

__all__ = ["LogRead", "PartitionLog"]


class Successor(NamedTuple):
    """The copy that is to take a log's place, and where the log's own directory is to go then."""

    copy: PartitionLog
    replaced_path: str


class PartitionLog(LogWriter):
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
        super().__init__(
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
        # Called when a flush that nobody waits for finds that the disk fails.
        self.on_disk_failure: Callable[[LogDirectoryError], None] | None = None
        self.successor: Successor | None = None
        self.reads = LogReads(self)
        self.flushing = LogFlush(self, is_clean=loaded.is_clean, unsynced=loaded.unsynced)
        self.removal = SegmentRemoval(self)
        self.start_writing(config)

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
        *,
        is_empty_directory: bool = False,
    ) -> PartitionLog:
        """A new log in a directory that exists. Blocks shortly. Raises: LogDirectoryError."""
        loading = LogLoading(disk, directory, config, clock.wall_ms())
        try:
            if is_empty_directory:
                loaded = loading.begin()
            else:
                loaded = loading.load(recovery_point=0, log_start_offset=0, was_clean=True)
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
        compacted_below: int = 0,
        was_clean: bool,
        index_cache: IndexCache | None = None,
    ) -> PartitionLog:
        """The log that is in a directory, recovered in a thread if the stop was not clean.

        The offsets are the checkpointed ones. Raises: LogDirectoryError.
        """
        loading = LogLoading(
            disk, directory, config, clock.wall_ms(), compacted_below=compacted_below
        )
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
        if not was_clean:
            # The process that made the directory may have been killed before the first flush.
            log.flushing.note_topic_id()
        return log

    @property
    def unflushed_bytes(self) -> int:
        """About how many bytes are not known to be on the device."""
        return self.flushing.unflushed_bytes

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
        """Make `offset` the log end; above it a no-op (REC-5). Raises: LogDirectoryError.

        A crash may undo it until `settle_cut` has returned.
        """
        self.check_online()
        return log_truncation.truncate_to(self, offset)

    def truncation_step(self, offset: int) -> int:
        """How far a truncation may go before it has to be settled; call again for the rest."""
        return log_truncation.truncation_step(self, offset)

    async def settle_cut(self) -> None:
        """Return when no crash can bring back what was cut off the end. Raises: OSError."""
        await log_truncation.settle(self)

    async def truncate(self, offset: int) -> bool:
        """Make `offset` the log end, whatever crashes; returns whether it was below.

        Nothing else may append meanwhile. Raises: LogDirectoryError, OSError.
        """
        end_offset = self.log_end_offset
        while self.truncate_to(self.truncation_step(offset)):
            await self.settle_cut()
        return self.log_end_offset < end_offset

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

    @property
    def replaced_path(self) -> str | None:
        """The name for removal that tells a start that the log's copy was complete, if it is."""
        successor = self.successor
        if successor is None or successor.copy.is_offline:
            return None
        is_complete = successor.copy.log_end_offset == self.log_end_offset
        return successor.replaced_path if is_complete else None

    def rename_directory(self, directory: str) -> None:
        """Give the log's folder another name, on the same disk. Raises: OSError.

        What belongs to the log finds it there, threads that are at work included.
        """
        with ExitStack() as renaming:
            segments = [*self.segments.values(), *self.removal.waiting()]
            for segment in segments:
                renaming.enter_context(segment.renaming())
            self.disk.rename(self.directory, directory)
            self.directory = directory
            for segment in segments:
                segment.move_to(directory)
        self.snapshots.directory = self.holes.directory = directory
        self.leader_epochs.path = f"{directory}/{LEADER_EPOCH_FILE}"

    def release_files(self) -> None:
        """Close all files, when no read can be under way any more."""
        self.tail.clear()
        self.removal.cancel()
        for segment in self.segments.values():
            segment.close()
            self.index_cache.forget(segment)

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]",
        )

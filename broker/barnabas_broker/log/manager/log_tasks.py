"""What a broker does with its logs from time to time: retention, flushing, checkpoints, removals.

Each task runs in its own asyncio task, never overlaps with itself, and survives the failure of one
round. Not here: what each round does to a single log, and compaction itself (`log_cleaner`).

Source: SEG-8, SEG-9, TXL-4, REP-5, LOG-11. Invariants: a log that left while
a round waited is not touched again and its errors take no directory offline; the bytes that
recovery would have to scan stay bounded per log and altogether.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from barnabas_broker.log.cleaner.log_cleaner import LogCleaner
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.manager.log_directories import LogDirectories
from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
from barnabas_protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas_broker.log.manager.disk_room import Room
    from barnabas_broker.log.manager.log_directory import LogDirectory
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)

# The first round of the slow tasks waits for the start to be over (SEG-9).
FIRST_ROUND_MS = 30_000
# Flushing looks this often for tails that have grown too long.
FLUSH_ROUND_MS = 1_000
# Every log is looked at this often even if hardly anything was appended.
FLUSH_LOOK_MS = 30_000
UNLIMITED_MS = 2**63 - 1
# All tails together may hold this many times what one may, so that many half-full ones are bounded
# too.
TOTAL_TAILS_FACTOR = 4
REMOVAL_ROUND_MS = 5_000
# How many logs a round looks at before it lets the loop do other work.
LOGS_PER_TURN = 200


class LogTasks:
    """The periodic tasks on the logs of a broker."""

    __slots__ = (
        "_checkpointing",
        "_cleaner",
        "_cleaner_task",
        "_directories",
        "_dirty_since_ms",
        "_look_at_bytes",
        "_look_at_ms",
        "_retain_now",
        "_stopping",
        "_tasks",
    )

    def __init__(
        self,
        directories: LogDirectories,
        checkpointing: OffsetCheckpointing,
        cleaner: LogCleaner,
    ) -> None:
        self._directories = directories
        self._checkpointing = checkpointing
        self._cleaner = cleaner
        self._tasks: list[asyncio.Task[None]] = []
        self._cleaner_task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._retain_now = asyncio.Event()  # also set by the stop
        # When a log with flush.ms was first seen with unflushed records.
        self._dirty_since_ms: dict[TopicPartition, int] = {}
        # No tail can be due before this much has been appended to all logs together, or this time.
        self._look_at_bytes = 0
        self._look_at_ms = 0

    def start(self) -> None:
        """Start all tasks. Does nothing if they run."""
        if self._tasks:
            return
        config = self._directories.config
        rounds: list[tuple[str, int, int, Callable[[], Awaitable[None]]]] = [
            ("retention", FIRST_ROUND_MS, config.log_retention_check_interval_ms, self.retain),
            ("flush", FLUSH_ROUND_MS, FLUSH_ROUND_MS, self.flush),
            (
                "recovery points",
                FIRST_ROUND_MS,
                config.log_flush_offset_checkpoint_interval_ms,
                self.write_recovery_points,
            ),
            (
                "log start offsets",
                FIRST_ROUND_MS,
                config.log_flush_start_offset_checkpoint_interval_ms,
                self.write_log_start_offsets,
            ),
            (
                "high watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                config.replica_high_watermark_checkpoint_interval_ms,
                self.write_high_watermarks,
            ),
            ("removal", REMOVAL_ROUND_MS, REMOVAL_ROUND_MS, self.remove),
            (
                "producer expiration",
                config.producer_id_expiration_check_interval_ms,
                config.producer_id_expiration_check_interval_ms,
                self.expire_producers,
            ),
        ]
        self._directories.disk_guard.on_change.append(self._room_changed)
        guard = self._directories.disk_guard.run(self._stopping.is_set)
        self._tasks.append(asyncio.create_task(guard, name="disk guard"))
        for name, first_ms, interval_ms, work in rounds:
            self._tasks.append(
                asyncio.create_task(self._every(name, first_ms, interval_ms, work), name=name)
            )
        if config.log_cleaner_enable:
            self._cleaner_task = asyncio.create_task(self._cleaner.run(), name="cleaner")

    async def stop(self) -> None:
        """End all tasks; returns when they have ended.

        None is cancelled: what runs in a thread for it would go on, and write the same checkpoint
        as the close that follows, into the same temporary file.
        """
        tasks, self._tasks = self._tasks, []
        self._stopping.set()
        self._retain_now.set()
        self._directories.disk_guard.look_soon()
        self._cleaner.stop()
        await asyncio.gather(*tasks, return_exceptions=True)
        cleaner_task, self._cleaner_task = self._cleaner_task, None
        if cleaner_task is not None:
            await cleaner_task

    def _room_changed(self, directory: LogDirectory, before: Room) -> None:
        """Have retention run at once where there is less room than before (VOL-4)."""
        if self._directories.disk_guard.room(directory) > before:
            self._retain_now.set()

    def look_soon(self) -> None:
        """Have the next flush round look at all logs."""
        self._look_at_ms = 0

    def log_added(self, log: PartitionLog) -> None:
        """Note that a log has come; one that has nothing to flush is not looked at for that."""
        if log.unflushed_bytes or log.config.flush_ms < UNLIMITED_MS:
            self.look_soon()

    def forget(self, topic_partition: TopicPartition) -> None:
        """Note that a log left."""
        self._cleaner.forget(topic_partition)
        self._dirty_since_ms.pop(topic_partition, None)

    # ---------------------------------------------------------------- the rounds

    async def retain(self) -> None:
        """Delete the segments that have outlived their retention (SEG-10)."""
        self._retain_now.clear()
        async for log in self.each_log():
            now_ms = self._directories.clock.wall_ms()
            await self.guarded(log, log.delete_old_segments(now_ms))

    async def flush(self) -> None:
        """Flush the logs whose tail is too long or too old, then write their recovery points.

        A tail is what recovery would scan after a crash. It is too long above
        `barnabas.flush.bytes`, or when it is among the longest while all tails together exceed
        a multiple of that; it is too old after the topic's `flush.ms`.
        """
        directories = self._directories
        limit = directories.config.barnabas_flush_bytes
        now_ms = directories.clock.monotonic_ms()
        appended_bytes = directories.tail_cache.appended_bytes
        if appended_bytes < self._look_at_bytes and now_ms < self._look_at_ms:
            return
        self._look_at_ms = now_ms + FLUSH_LOOK_MS
        tails: list[tuple[int, PartitionLog]] = []
        due: list[PartitionLog] = []
        has_flush_ms = False
        async for log in self.each_log():
            size = log.unflushed_bytes
            has_flush_ms = has_flush_ms or log.config.flush_ms < UNLIMITED_MS
            if not size:
                self._dirty_since_ms.pop(log.topic_partition, None)
            elif size > limit or self._is_too_old(log, now_ms):
                due.append(log)
            else:
                tails.append((size, log))
        excess = sum(size for size, _ in tails) - TOTAL_TAILS_FACTOR * limit
        room = min(limit - max((size for size, _ in tails), default=0), -excess)
        self._look_at_bytes = appended_bytes + max(room, 1)
        if has_flush_ms:
            self.look_soon()
        if excess > 0:
            tails.sort(key=lambda tail: tail[0], reverse=True)
            for size, log in tails:
                due.append(log)
                excess -= size
                if excess <= 0:
                    break
        for log in due:
            if self._stopping.is_set():
                return
            self._dirty_since_ms.pop(log.topic_partition, None)
            await self.guarded(log, log.flush())
        for path in sorted({directories.of(log).path for log in due}):
            for directory in directories.online():
                if directory.path == path:
                    await self._checkpointing.write_recovery_points(directory)

    async def write_recovery_points(self) -> None:
        """Write up to where the logs are flushed."""
        for directory in self._directories.online():
            await self._checkpointing.write_recovery_points(directory)

    async def write_log_start_offsets(self) -> None:
        """Write where the logs start."""
        for directory in self._directories.online():
            await self._checkpointing.write_log_start_offsets(directory)

    async def write_high_watermarks(self) -> None:
        """Write the high watermarks."""
        for directory in self._directories.online():
            await self._checkpointing.write_high_watermarks(directory)

    async def remove(self) -> None:
        """Remove the directories of deleted partitions whose delay is over."""
        for path, error in await self._directories.removals.remove_due(
            self._directories.clock.monotonic_ms(), self._stopping.is_set
        ):
            _logger.error("%s could not be removed: %s", path, error)

    async def expire_producers(self) -> None:
        """Forget producers that have been silent for long (TXL-4)."""
        expiration_ms = self._directories.config.producer_id_expiration_ms
        async for log in self.each_log():
            log.producer_state.expire(self._directories.clock.wall_ms(), expiration_ms)

    # ---------------------------------------------------------------- helpers

    async def _every(
        self, name: str, first_ms: int, interval_ms: int, work: Callable[[], Awaitable[None]]
    ) -> None:
        wait_ms = first_ms
        wake = self._retain_now if work == self.retain else self._stopping
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), wait_ms / 1000)
            if self._stopping.is_set():
                return
            try:
                await work()
            except Exception:
                # A bug in one round must not end retention or flushing for the rest of the run.
                _logger.exception("a round of the %s task failed", name)
            wait_ms = interval_ms

    async def each_log(self) -> AsyncIterator[PartitionLog]:
        """Yield every log that is still in service, giving way to the loop now and then.

        Ends early when the broker stops.
        """
        for index, log in enumerate(list(self._directories.logs.values())):
            if index % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
            if self._stopping.is_set():
                return
            if self._directories.is_in_service(log):
                yield log

    async def guarded(self, log: PartitionLog, work: Awaitable[object]) -> None:
        """Wait for work on one log; a failing disk takes its directory offline."""
        try:
            await work
        except KafkaError:
            # The log was closed or went offline while the round waited.
            _logger.debug("%s is no longer in service", log.directory)
        except (OSError, LogDirectoryError) as error:
            if self._directories.is_in_service(log):
                self._directories.take_offline(log.directory, error)

    def _is_too_old(self, log: PartitionLog, now_ms: int) -> bool:
        if log.config.flush_ms >= UNLIMITED_MS:
            return False
        since_ms = self._dirty_since_ms.setdefault(log.topic_partition, now_ms)
        return now_ms - since_ms >= log.config.flush_ms

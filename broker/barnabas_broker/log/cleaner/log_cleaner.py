"""The log cleaner: compacts the logs that need it, one after the other, as fast as it may.

Not here: which log is next (`cleanable_logs`, pure) and one round on it (`compaction`).

Source: REC-7, REC-11, REC-12. Invariants: at most one round at a time; a log whose
compaction fails for its own reasons is left alone from then on and reported, a disk that fails
takes its directory offline; the first dirty offset is written only after the swap it stands for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from barnabas_broker.log.cleaner.cleanable_logs import (
    CleanableSegment,
    CompactionLimits,
    CompactionPlan,
    is_due,
    plan_compaction,
)
from barnabas_broker.log.cleaner.compaction import Compaction, LogChangedError
from barnabas_broker.log.errors import CorruptionError, LogDirectoryError
from barnabas_broker.log.recovery.segment_recovery import (
    load_first_timestamp,
    read_largest_timestamp,
)
from barnabas_protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas_broker.config.parse import BrokerConfig
    from barnabas_broker.log.manager.log_directories import LogDirectories
    from barnabas_broker.log.manager.offset_checkpointing import OffsetCheckpointing
    from barnabas_broker.log.partition_log import PartitionLog
    from barnabas_broker.log.segment import Segment
    from barnabas_protocol.ids import TopicPartition

_logger = logging.getLogger(__name__)
_NO_LIMIT_MS = 2**63 - 1
LOGS_PER_TURN = 200
DEDUPE_BUFFER_KEY = "log.cleaner.dedupe.buffer.size"
# Enough for a quarter of a million keys a round; more keys take more rounds.
DEFAULT_MEMORY_BYTES = 48 * 1024 * 1024


class CleanerMetrics:
    """Plain counters, read when they are scraped."""

    __slots__ = ("bytes_read", "bytes_written", "dirty_ratio_max", "rounds_count")

    def __init__(self) -> None:
        self.rounds_count = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.dirty_ratio_max = 0.0


class LogCleaner:
    """The cleaner of a broker's logs. `uncleanable`: why each log that failed is left alone."""

    __slots__ = (
        "_checkpointing",
        "_directories",
        "_is_whole",
        "_stopping",
        "_throttled_until_ms",
        "metrics",
        "uncleanable",
    )

    def __init__(
        self,
        directories: LogDirectories,
        checkpointing: OffsetCheckpointing,
        is_whole: Callable[[TopicPartition], bool],
    ) -> None:
        """Make one. `is_whole`: whether all replicas of a partition are known to be in sync."""
        self._directories = directories
        self._checkpointing = checkpointing
        self._is_whole = is_whole
        self._stopping = asyncio.Event()
        self._throttled_until_ms = 0.0
        self.metrics = CleanerMetrics()
        self.uncleanable: dict[TopicPartition, str] = {}

    async def run(self) -> None:
        """Compact whatever is due until `stop` is called."""
        while not self._stopping.is_set():
            try:
                was_busy = await self.clean_once()
            except Exception:
                # Compaction must not end for all logs because of a bug with one.
                _logger.exception("a round of the log cleaner failed")
                was_busy = False
            if not was_busy:
                backoff = self._directories.config.log_cleaner_backoff_ms / 1000
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff)

    @property
    def memory_bytes(self) -> int:
        """How much memory the keys of one round may take."""
        return _memory_bytes(self._directories.config)

    def stop(self) -> None:
        """Make `run` return soon; a round under way is given up at its next step.

        `run` must not be cancelled: a step in a thread would go on without it.
        """
        self._stopping.set()

    def forget(self, topic_partition: TopicPartition) -> None:
        """Note that a log left; a round on it gives up by itself."""
        self.uncleanable.pop(topic_partition, None)

    async def clean_once(self) -> bool:
        """Compact the log that needs it most; returns whether there was one."""
        chosen = await self._choose()
        if chosen is None:
            return False
        log, plan, facts = chosen
        await self._clean(log, plan, facts)
        return True

    # ---------------------------------------------------------------- choosing

    async def _choose(
        self,
    ) -> tuple[PartitionLog, CompactionPlan, list[CleanableSegment]] | None:
        best: tuple[PartitionLog, CompactionPlan, list[CleanableSegment]] | None = None
        highest = 0.0
        for index, log in enumerate(list(self._directories.logs.values())):
            if index % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
            if not log.config.is_compacted or len(log.segments) < 2 or not self._may_clean(log):
                continue
            try:
                facts, plan = await self.plan(log)
            except Exception as error:
                if self._may_clean(log):
                    _logger.exception("%s cannot be compacted and is left alone", log.directory)
                    self.uncleanable[log.topic_partition] = f"{type(error).__name__}: {error}"
                continue
            ratio = plan.dirty_ratio
            highest = max(highest, ratio)
            if not is_due(plan, log.config.min_cleanable_dirty_ratio):
                continue
            if best is None or ratio > best[1].dirty_ratio:
                best = (log, plan, facts)
        self.metrics.dirty_ratio_max = highest
        return best if best is not None and self._may_clean(best[0]) else None

    def _may_clean(self, log: PartitionLog) -> bool:
        topic_partition = log.topic_partition
        return (
            not self._stopping.is_set()
            and not log.is_offline
            and topic_partition not in self.uncleanable
            and self._directories.is_in_service(log)
        )

    async def plan(self, log: PartitionLog) -> tuple[list[CleanableSegment], CompactionPlan]:
        """Gather the facts of a log and return them with what a round on it would do."""
        config = log.config
        now_ms = self._directories.clock.wall_ms()
        lag_max_ms = config.max_compaction_lag_ms
        if log.recovery_point < log.segments.active.base_offset:
            # So it is after a crash, until something else flushes the log.
            await self._guarded(log, log.flush())
        segments = log.segments.values()
        if config.min_compaction_lag_ms > 0 or lag_max_ms < _NO_LIMIT_MS:
            await self._guarded(
                log,
                self._directories.disk.run(_read_timestamps, segments, config.index_interval_bytes),
            )
            segments = log.segments.values()
        facts = _facts(segments, log.log_end_offset)
        # What is not flushed may still be written to by a flush under way, index files included.
        flushed = next(
            (fact.base_offset for fact in facts if fact.end_offset > log.flushing.synced_below),
            log.log_end_offset,
        )
        limits = CompactionLimits(
            log.first_dirty_offset,
            log.log_start_offset,
            min(log.last_stable_offset, flushed),
            config.min_compaction_lag_ms,
            lag_max_ms,
        )
        return facts, plan_compaction(facts, limits, now_ms)

    async def _guarded(self, log: PartitionLog, work: Awaitable[object]) -> None:
        """Wait for work on a log; a failing disk takes its directory offline."""
        segments = log.segments.values()
        try:
            await work
        except (OSError, LogDirectoryError, KafkaError) as error:
            if isinstance(error, FileNotFoundError) and log.segments.values() != segments:
                return  # retention has taken segments meanwhile
            if self._may_clean(log):
                self._directories.take_offline(log.directory, error)

    # ---------------------------------------------------------------- cleaning

    async def _clean(
        self, log: PartitionLog, plan: CompactionPlan, facts: list[CleanableSegment]
    ) -> None:
        directories = self._directories
        name = f"{log.topic_partition.topic}-{log.topic_partition.partition}"
        compaction = Compaction(
            directories.disk,
            log,
            plan,
            facts,
            map_bytes=self.memory_bytes,
            now_ms=directories.clock.wall_ms(),
            # A copy in another directory may have the value and meet no tombstone.
            forgets_deletions=self._is_whole(log.topic_partition) and not log.is_being_copied,
            is_current=lambda: self._may_clean(log),
        )
        try:
            first_dirty = await compaction.run(self.throttle)
        except LogChangedError:
            _logger.info("compaction of %s was given up: the log changed or the broker stops", name)
            return
        except (OSError, LogDirectoryError) as error:
            directories.take_offline(log.directory, error)
            return
        except CorruptionError as error:
            _logger.error("%s cannot be compacted and is left alone: %s", name, error)
            self.uncleanable[log.topic_partition] = str(error)
            return
        except Exception as error:
            # Whatever a log holds, the others are compacted.
            _logger.exception("%s cannot be compacted and is left alone", name)
            self.uncleanable[log.topic_partition] = f"{type(error).__name__}: {error}"
            return
        if first_dirty <= plan.first_dirty_offset:
            reason = "no whole batch lies in its dirty part"
            _logger.error("%s cannot be compacted and is left alone: %s", name, reason)
            self.uncleanable[log.topic_partition] = reason
            return
        self.metrics.rounds_count += 1
        self.metrics.bytes_read += compaction.bytes_read
        self.metrics.bytes_written += compaction.bytes_written
        if directories.is_in_service(log):
            log.first_dirty_offset = first_dirty
            await self._checkpointing.write_cleaner_offsets(directories.of(log))

    async def throttle(self, size: int) -> None:
        """Wait so that reading keeps to `log.cleaner.io.max.bytes.per.second`."""
        rate = self._directories.config.log_cleaner_io_max_bytes_per_second
        now_ms = float(self._directories.clock.monotonic_ms())
        self._throttled_until_ms = max(self._throttled_until_ms, now_ms) + size * 1000 / rate
        wait_ms = self._throttled_until_ms - now_ms
        if wait_ms >= 1:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_ms / 1000)


def _memory_bytes(config: BrokerConfig) -> int:
    """What a round may take for its keys: Kafka's default would be most of this process."""
    given: int = config.log_cleaner_dedupe_buffer_size
    if DEDUPE_BUFFER_KEY in config.properties:
        return given
    return min(given, DEFAULT_MEMORY_BYTES)


def _facts(segments: list[Segment], log_end_offset: int) -> list[CleanableSegment]:
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    return [
        CleanableSegment(
            segment.base_offset,
            end_offset,
            segment.size_bytes,
            -1 if segment.first_timestamp is None else segment.first_timestamp,
            segment.largest_timestamp,
        )
        for segment, end_offset in zip(segments, ends, strict=True)
    ]


def _read_timestamps(segments: Iterable[Segment], interval_bytes: int) -> None:
    """Fill in the timestamps that are not in memory. For a thread."""
    for segment in segments:
        read_largest_timestamp(segment, interval_bytes)
        if segment.first_timestamp is None:
            load_first_timestamp(segment)

"""What a partition log is at a moment: its offsets, segments and parts, and whether it failed.

Not here: what changes it (`log_writer.py`, `partition_log.py`). Source: behaviour LOG-11, TXL-5.
Invariants: log start <= last stable offset <= high watermark <= log end <= staged end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import Random
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.log_reader import IndexCache
from barnabas_broker.log.recovery import LoadedLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.log.cleaner_output import CleanedSegment


class LogState:
    """The state of one partition's log, with the rules between its offsets."""

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
        self.config = config
        self.segments = loaded.segments
        self.producer_state = loaded.producer_state
        self.leader_epochs = loaded.leader_epochs
        self.snapshots = loaded.snapshots
        self.holes = loaded.holes
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = self.staged_end_offset = loaded.log_end_offset
        # Everything below it is on the device.
        self.recovery_point = loaded.recovery_point
        # What was there when the log was opened may have been acknowledged as flushed: the recovery
        # point that a crash leaves is an old one.
        self.acknowledged_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.is_offline = False
        self.is_closed = False
        # Compaction's output while a start would put it in service, but it is not yet.
        self.completed_output: CleanedSegment | None = None
        # Rises with every truncation, so that work in threads finds out that its results are old.
        self.generation = 0
        # What a truncation has cut off may come back with a power cut (`log_truncation.settle`).
        self.is_cut_unsettled = False
        # Nor have the recovery point and the log start been written since: before that nothing may
        # be appended (`LogManager.note_truncations`).
        self.is_cut_unnoted = False
        self.closed_segments_bytes = 0
        self.index_cache = index_cache or IndexCache()
        self.tail = tail_cache.tail()

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches that are written."""
        return self.closed_segments_bytes + self.segments.active.size_bytes

    def count_closed_segments(self) -> None:
        """Count the bytes of the closed segments anew, after some were replaced or removed."""
        self.closed_segments_bytes = self.segments.size_bytes - self.segments.active.size_bytes

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

    def drop_completed_output(self) -> bool:
        """Before segments are cut or removed: have no start put others in their place.

        Returns whether there was something to drop. Raises: OSError.
        """
        output, self.completed_output = self.completed_output, None
        if output is not None:
            output.discard()
        return output is not None

    def advance_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset, at most to the log end; returns whether it moved.

        Segments that are wholly below it go with the next `delete_old_segments`.
        """
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.advance_high_watermark(offset)
        return True

    def fail(self, path: str, cause: OSError) -> LogDirectoryError | KafkaError:
        """Go offline; returns the error to raise (LOG-11).

        A log that is out of service already, because it was deleted for example, may find its files
        gone: that says nothing about the disk.
        """
        if self.is_offline or self.is_closed:
            return self.storage_error()
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

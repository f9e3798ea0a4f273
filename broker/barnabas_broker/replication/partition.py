"""One partition on this broker: who leads it, what may be acknowledged, what may be read.

It decides about leadership, leader epochs and the high watermark, and is the only one that moves
the log's. Storage is the log's, waiting is the purgatory's. Source: KIP-101 (leader epochs),
KIP-497 (maximal ISR).
Invariants: the high watermark never falls while this broker leads; nothing is acknowledged before
it is in the file, under the policy `group-fsync` not before it is on the disk.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import AppendInfo, PartitionLog
from barnabas_broker.metadata.image import PartitionImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

GROUP_FSYNC = "group-fsync"
NO_EPOCH = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class TurnEnd(Protocol):
    """Where a partition asks to be written at the end of the loop turn."""

    def writer(self, writer: "Partition") -> None:
        """Call the writer's `finish_turn` once in this turn."""
        ...


class Partition:
    """A replica on this broker and, where it leads, the state of its leadership."""

    __slots__ = (
        "_flushing",
        "_in_turn",
        "_node_id",
        "_on_directory_error",
        "_on_progress",
        "_tasks",
        "_turn",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "image",
        "is_internal",
        "leading_since_offset",
        "log",
        "records_in",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        image: PartitionImage,
        log: PartitionLog,
        *,
        node_id: int,
        turn: TurnEnd,
        tasks: set[asyncio.Task[None]],
        on_progress: Callable[["Partition"], None],
        on_directory_error: Callable[[LogDirectoryError], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.image = image
        self.log = log
        self._node_id = node_id
        self._turn = turn
        self._tasks = tasks
        self._on_progress = on_progress
        self._on_directory_error = on_directory_error
        self._in_turn = False
        self._flushing = False
        # The log end when the present leadership began.
        self.leading_since_offset = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.records_in = 0

    # Leadership.

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.image.leader == self._node_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the present leadership."""
        return self.image.leader_epoch

    def become(self, image: PartitionImage) -> None:
        """Take over a newer state of the partition.

        An older or equal leader epoch changes no leadership (LEAD-12).
        """
        new_leadership = image.leader_epoch > self.image.leader_epoch
        self.image = image
        if self.is_leader and new_leadership:
            self.start_leading()
        else:
            self.advance()

    def start_leading(self) -> None:
        """Record where the present leader epoch begins and see what is committed (LEAD-11)."""
        self.leading_since_offset = self.log.log_end_offset
        if self.log.leader_epochs.latest != self.image.leader_epoch:
            self.log.leader_epochs.assign(self.image.leader_epoch, self.log.log_end_offset)
        if self.durable_end_offset < self.log.log_end_offset:
            # What recovery found may have been acknowledged: it must not wait for an append.
            self._flush()
        self.advance()

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what only a leader of just this leader epoch may answer.

        Raises: KafkaError 6, 56, 74 or 75 (REP-17).
        """
        if self.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.image.leader != self._node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.image.leader_epoch:
            if current_leader_epoch < self.image.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def minimum_in_sync(self) -> int:
        """The effective `min.insync.replicas`: never more than there are replicas (LOG-3)."""
        return min(self.log.config.min_insync_replicas, len(self.image.replicas))

    # Append.

    def append(
        self, records: Buffer, acks: int, now_ms: int, *, internal: bool = False
    ) -> AppendInfo:
        """Validate and stage a batch; it is in the file when the loop turn has ended.

        Raises: KafkaError; nothing is appended then.
        """
        log = self.log
        if log.is_offline or self.image.leader != self._node_id:
            self.check_leader()
        in_sync_count = len(self.image.isr)
        if (
            acks == -1
            and in_sync_count < log.config.min_insync_replicas
            and in_sync_count < self.minimum_in_sync
        ):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = log.append_as_leader(
                records, self.image.leader_epoch, internal=internal, now_ms=now_ms
            )
        except LogDirectoryError as error:
            self._on_directory_error(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except KafkaError:
            self.bytes_rejected += len(records)
            raise
        self.bytes_in += info.size_bytes
        self.records_in += info.record_count
        if not self._in_turn and not info.is_duplicate:
            self._in_turn = True
            self._turn.writer(self)
        return info

    def finish_turn(self) -> None:
        """Write what was staged in this turn, and see what is committed by it."""
        self._in_turn = False
        try:
            self.log.write_staged()
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return
        if self._waits_for_fsync:
            self._flush()
        self.advance()

    def _flush(self) -> None:
        """Start one shared fsync; what arrives meanwhile gets the next one."""
        if self._flushing:
            return
        self._flushing = True
        task = asyncio.get_running_loop().create_task(self._flush_until_done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flush_until_done(self) -> None:
        try:
            while self.log.recovery_point < self.log.log_end_offset and not self.log.is_offline:
                await self.log.flush()
                self.advance()
        except LogDirectoryError as error:
            self._on_directory_error(error)
        finally:
            self._flushing = False

    # Progress.

    @property
    def durable_end_offset(self) -> int:
        """Up to where this replica vouches for its records, by the topic's flush policy."""
        log = self.log
        if self._waits_for_fsync:
            return min(log.recovery_point, log.log_end_offset)
        return log.log_end_offset

    @property
    def _waits_for_fsync(self) -> bool:
        """Whether the newest records may not be acknowledged before an fsync.

        Always under `group-fsync`; and when `flush.messages` records have not been flushed (SEG-8).
        """
        log = self.log
        config = log.config
        return (
            config.barnabas_flush_policy == GROUP_FSYNC
            or log.log_end_offset - log.recovery_point >= config.flush_messages
        )

    def advance(self) -> None:
        """Raise the high watermark to what the whole ISR has.

        Wakes those who wait for it (REP-1).
        """
        if not self.is_leader or len(self.image.isr) > 1:
            return
        if self.log.advance_high_watermark(self.durable_end_offset):
            self._on_progress(self)

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Whether records below an offset may be acknowledged under `acks`."""
        if acks == -1:
            return self.log.high_watermark >= end_offset
        return self.durable_end_offset >= end_offset

    # Read.

    @property
    def is_end_known(self) -> bool:
        """Whether the high watermark has reached what former leaders may have acknowledged.

        Until then it may lie below what consumers have seen (REQ-11).
        """
        return self.log.high_watermark >= self.leading_since_offset

    def limit_offset(self, *, is_follower: bool, read_committed: bool) -> int:
        """The first offset that a reader may not see (TXL-7)."""
        if is_follower:
            return self.log.log_end_offset
        return self.log.last_stable_offset if read_committed else self.log.high_watermark

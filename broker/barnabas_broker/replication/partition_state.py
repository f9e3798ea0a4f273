"""What a partition on this broker is at a moment, and who may ask what of it.

Fields, and questions about them that change nothing. What changes them is in `partition.py`.
Source: REP-17 (leader epochs), LOG-3 (min ISR), REQ-11, TXL-7 of the behaviour list.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.metadata.image import PartitionImage
from barnabas_broker.replication.follower_states import (
    FindBroker,
    FollowerStates,
    follower_directories,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas_broker.replication.partition import Partition

GROUP_FSYNC = "group-fsync"
NO_EPOCH = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class TurnEnd(Protocol):
    """Where a partition asks to be written at the end of the loop turn."""

    def writer(self, writer: "Partition") -> None:
        """Call the writer's `finish_turn` once in this turn."""
        ...


class FollowerView(Protocol):
    """Where a follower's fetch session wants to hear of a partition."""

    def appended(self) -> None:
        """The log end has moved."""
        ...

    def offsets_moved(self, *, is_urgent: bool = False) -> None:
        """The high watermark or the log start has moved."""
        ...

    def leadership_changed(self) -> None:
        """The leader or the leader epoch is another one."""
        ...

    def replica_changed(self) -> None:
        """The follower's replica is another one: what was asked before says nothing of it."""
        ...


class IsrProposals(Protocol):
    """Who brings a wished ISR to the controller."""

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        """Ask for an ISR; the partition's next image, or `isr_refused`, is the answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationContext:
    """What a leader needs to know of the cluster. `now_ms` reads the monotonic clock."""

    now_ms: Callable[[], int]
    find_broker: FindBroker
    lag_ms_max: Callable[[], int]
    # Asks the controller for an ISR; False where there is no way to ask.
    propose_isr: Callable[["Partition", tuple[int, ...]], bool]


class PartitionState:
    """The fields of one partition. Made as a `Partition`."""

    __slots__ = (
        "_context",
        "_flushing",
        "_in_turn",
        "_node_id",
        "_on_directory_error",
        "_on_progress",
        "_tasks",
        "_turn",
        "_views",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "bytes_to_followers",
        "followers",
        "image",
        "is_internal",
        "is_leader",
        "is_replicated",
        "leading_since_offset",
        "log",
        "maximal_isr",
        "proposed_isr",
        "records_in",
        "told_start_offset",
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
        context: ReplicationContext,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.log = log
        self._node_id = node_id
        self._turn = turn
        self._tasks = tasks
        self._on_progress = on_progress
        self._on_directory_error = on_directory_error
        self._in_turn = False
        self._flushing = False
        self._context = context
        self._views: dict[int, FollowerView] = {}  # by the follower's node
        self.followers = FollowerStates(context.find_broker)
        # What the controller was asked for and has not answered yet, in this partition epoch.
        self.proposed_isr: tuple[int, ...] | None = None
        # The log end when the present leader epoch began.
        self.leading_since_offset = 0
        self.told_start_offset = log.log_start_offset
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.bytes_to_followers = 0
        self.records_in = 0
        self._take(image)

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the present leadership."""
        return self.image.leader_epoch

    def _take(self, image: PartitionImage) -> list[int]:
        """Derive from an image what is asked for with every append.

        Returns the followers that have another replica now.
        """
        self.image = image
        self.maximal_isr = frozenset((*image.isr, *(self.proposed_isr or ())))
        self.is_leader = image.leader == self._node_id
        self.is_replicated = len(image.replicas) > 1
        directories = follower_directories(image, self._node_id) if self.is_leader else {}
        return self.followers.assign(directories, image.isr, self._context.now_ms())

    # Who may ask.

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what only a leader of just this leader epoch may answer.

        Raises: KafkaError 6, 56, 74 or 75 (REP-17).
        """
        if self.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._check_epoch(current_leader_epoch)

    def check_replica(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what a replica of just this leader epoch may not answer (KIP-392).

        Raises: KafkaError 6 where nobody leads, 56, 74 or 75.
        """
        if self.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.image.leader < 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._check_epoch(current_leader_epoch)

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.image.leader_epoch:
            if current_leader_epoch < self.image.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def minimum_in_sync(self) -> int:
        """The effective `min.insync.replicas`: never more than there are replicas (LOG-3)."""
        return min(self.log.config.min_insync_replicas, len(self.image.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than acks=all needs."""
        in_sync_count = len(self.image.isr)
        return in_sync_count < self.log.config.min_insync_replicas and in_sync_count < len(
            self.image.replicas
        )

    # How far it is.

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

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Whether records below an offset may be acknowledged under `acks`."""
        if acks == -1:
            return self.log.high_watermark >= end_offset
        return self.durable_end_offset >= end_offset

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

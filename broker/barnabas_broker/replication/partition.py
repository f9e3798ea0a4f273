"""One partition on this broker: its leadership, what is acknowledged, what may be read.

It decides about leader epochs, the ISR that it proposes and the high watermark, and nobody else
moves that of the log. The log stores, the purgatory holds what waits, `leader/follower_states.py`
has the followers. Source: KIP-101 (leader epochs), KIP-497 (maximal ISR); REP-17, LOG-3 (min ISR),
REQ-11, TXL-7.
Invariants: the high watermark never falls while this broker leads, and never passes a member of the
maximal ISR; nothing is acknowledged before it is in the file, under the policy `group-fsync` not
before it is on the disk.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.validator import CheckedBatch
from barnabas_broker.metadata.image import PartitionImage
from barnabas_broker.replication.leader.follower_states import (
    FindBroker,
    FollowerStates,
    follower_directories,
)
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition

GROUP_FSYNC = "group-fsync"
NO_EPOCH = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TurnEnd(Protocol):
    """Writes partitions at the end of the loop turn."""

    def writer(self, writer: "Partition") -> None:
        """Call the writer's `finish_turn` once in this turn."""
        ...


class PartitionListener(Protocol):
    """Gets the changes of a partition: the fetch session of a follower."""

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
        """The follower's replica is another one: earlier fetches do not count for it."""
        ...


class IsrProposer(Protocol):
    """Sends a proposed ISR to the controller."""

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        """Propose an ISR; the partition's next image, or `isr_refused`, is the outcome."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationContext:
    """What a leader needs to know of the cluster. `now_ms` reads the monotonic clock."""

    now_ms: Callable[[], int]
    find_broker: FindBroker
    lag_ms_max: Callable[[], int]
    # Proposes an ISR to the controller; False where there is none.
    propose_isr: Callable[["Partition", tuple[int, ...]], bool]


class Partition:
    """A replica on this broker and, where it leads, the state of its leadership."""

    __slots__ = (
        "_context",
        "_flushing",
        "_in_turn",
        "_listeners",
        "_node_id",
        "_on_directory_error",
        "_on_progress",
        "_tasks",
        "_turn",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "bytes_to_followers",
        "followers",
        "image",
        "interruption_count",
        "is_internal",
        "is_leader",
        "is_replicated",
        "leading_since_offset",
        "log",
        "maximal_isr",
        "proposed_isr",
        "records_in",
        "sent_start_offset",
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
        # How often something has come in between that may have taken what was appended before:
        # another leader, or a log that was opened again.
        self.interruption_count = 0
        self._context = context
        self._listeners: dict[int, PartitionListener] = {}  # by the follower's node
        self.followers = FollowerStates(context.find_broker)
        # Sent to the controller in this partition epoch, and without an outcome yet.
        self.proposed_isr: tuple[int, ...] | None = None
        # The log end when the present leader epoch began.
        self.leading_since_offset = 0
        self.sent_start_offset = log.log_start_offset
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
        """Derive from an image what every append needs.

        Returns the followers that have another replica now.
        """
        self.image = image
        self.maximal_isr = frozenset((*image.isr, *(self.proposed_isr or ())))
        self.is_leader = image.leader == self._node_id
        self.is_replicated = len(image.replicas) > 1
        directories = follower_directories(image, self._node_id) if self.is_leader else {}
        return self.followers.assign(directories, image.isr, self._context.now_ms())

    # Checks of requests.

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what only the leader of just this leader epoch serves.

        Raises: KafkaError 6, 56, 74 or 75 (REP-17).
        """
        if self.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._check_epoch(current_leader_epoch)

    def check_replica(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Refuse what a replica of another leader epoch does not serve (KIP-392).

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
        return (
            in_sync_count < len(self.image.replicas)
            and in_sync_count < self.log.config.min_insync_replicas
        )

    # How far it is.

    @property
    def durable_end_offset(self) -> int:
        """Up to where this replica vouches for its records, by the topic's flush policy."""
        return self._durable_below(self.log.log_end_offset)

    def _durable_below(self, end_offset: int) -> int:
        """`durable_end_offset` of a log that ends there."""
        log = self.log
        config = log.config
        if config.barnabas_flush_policy != GROUP_FSYNC:
            # As nearly always: there are not so many records that have to be flushed (SEG-8).
            if end_offset < config.flush_messages:
                return end_offset
            if end_offset - log.recovery_point < config.flush_messages:
                return end_offset
        return min(log.recovery_point, end_offset)

    def is_acknowledged(self, end_offset: int, acks: int) -> bool:
        """Whether records below an offset may be acknowledged under `acks`."""
        if acks == -1:
            return self.log.high_watermark >= end_offset
        return self.durable_end_offset >= end_offset

    def check_acknowledged(self, end_offset: int, acks: int, interruption_count: int) -> bool:
        """Whether records below an offset are acknowledged under `acks`.

        `interruption_count` is that of the append: who waits for several partitions may look at
        this one only when it is led here again, with other records below the offset.
        Raises: KafkaError where they will not be: 6, 20 or 56.
        """
        if self.log.is_offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        if not self.is_leader or self.interruption_count != interruption_count:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.is_acknowledged(end_offset, acks):
            return False
        if acks == -1 and self.is_under_min_isr:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

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

    # Leadership.

    def become(self, image: PartitionImage) -> None:
        """Take over a newer state of the partition; an older one changes nothing (LEAD-12)."""
        known, was_leader = self.image, self.is_leader
        if image.partition_epoch < known.partition_epoch:
            return
        is_new_epoch = image.leader_epoch != known.leader_epoch
        if is_new_epoch:
            self._write()  # what is staged belongs to the old leader epoch
        if image.partition_epoch > known.partition_epoch:
            self.proposed_isr = None  # in force now, or overtaken
        replaced = self._take(image)
        if was_leader and not self.is_leader:
            self.interruption_count += 1
        if self.is_leader and is_new_epoch:
            # Epochs that never came to us were another's: its followers may have cut their logs.
            goes_on = was_leader and image.leader_epoch == known.leader_epoch + 1
            self.start_leading(is_new_leader=not goes_on)
        elif self.is_leader:
            self._expand()
            self.advance()
        for node_id, listener in list(self._listeners.items()):
            if node_id in replaced:
                listener.replica_changed()
            elif is_new_epoch or image.replicas != known.replicas:
                listener.leadership_changed()
        if is_new_epoch or image.isr != known.isr:
            self._on_progress(self)

    def stop_leading(self) -> None:
        """Fail what waits and acknowledge nothing more: the replica is not ours any longer.

        Its partition is deleted or moved, so that no image comes for it (LEAD-10, LEAD-11).
        """
        self.is_leader = False
        self.proposed_isr = None
        for listener in list(self._listeners.values()):
            listener.leadership_changed()
        self._on_progress(self)

    def start_leading(self, *, is_new_leader: bool = True) -> None:
        """Record where the present leader epoch begins and see what is committed (LEAD-11)."""
        log, image, now_ms = self.log, self.image, self._context.now_ms()
        self.leading_since_offset = log.log_end_offset
        if is_new_leader:
            self.followers.begin_leading(image.isr, now_ms)
        else:
            self.followers.begin_leader_epoch(image.isr, log.log_end_offset, now_ms)
        if log.leader_epochs.latest != image.leader_epoch:
            log.leader_epochs.assign(image.leader_epoch, log.log_end_offset)
        if self.durable_end_offset < log.log_end_offset:
            # What recovery found may have been acknowledged: it must not wait for an append.
            self._flush()
        self.advance()

    def take_log(self, log: PartitionLog) -> None:
        """Serve another log from now on, that has what the last one had written."""
        self.log = log
        self.interruption_count += 1
        if self.is_leader:
            if log.leader_epochs.latest < self.image.leader_epoch:
                log.leader_epochs.assign(self.image.leader_epoch, log.log_end_offset)
            if self.durable_end_offset < log.log_end_offset:
                self._flush()
            self.followers.excuse(self.image.isr, self._context.now_ms())
            if self.proposed_isr is not None:
                # Dropped while the log was out of service, and perhaps in force: proposed again.
                self._propose(self.proposed_isr)
            self.advance()

    # Append.

    def append(
        self,
        records: Buffer,
        acks: int,
        now_ms: int,
        *,
        internal: bool = False,
        checked: CheckedBatch | None = None,
    ) -> AppendInfo:
        """Validate and stage a batch; it is in the file when the loop turn has ended.

        Raises: KafkaError, HeavyBatchError; nothing is appended then.
        """
        log, image = self.log, self.image
        if not self.is_leader:
            self.check_leader()
        if acks == -1 and len(image.isr) < len(image.replicas) and self.is_under_min_isr:
            self.check_leader()  # a log that is offline comes first
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = log.append_as_leader(
                records,
                image.leader_epoch,
                internal=internal,
                now_ms=now_ms,
                checked=checked,
            )
        except LogDirectoryError as error:
            self._on_directory_error(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except KafkaError:
            if log.is_offline:
                self.check_leader()
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
        if not self._write():
            return
        end_offset = self.log.log_end_offset
        durable_end_offset = self._durable_below(end_offset)
        if durable_end_offset < end_offset:
            self._flush()
        self.advance(durable_end_offset)

    def _write(self) -> bool:
        """Write what is staged and notify the listeners; False if the disk fails."""
        self._in_turn = False
        try:
            self.log.write_staged()
        except LogDirectoryError as error:
            self._on_directory_error(error)
            return False
        if self._listeners:
            for listener in self._listeners.values():
                listener.appended()
        return True

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

    def advance(self, end_offset: int | None = None) -> None:
        """Raise the high watermark to the lowest log end offset of the maximal ISR (REP-1).

        `end_offset` is the durable end of this replica, where it was looked up just before.
        Completes what waits for the high watermark.
        """
        if not self.is_leader:
            return
        if end_offset is None:
            end_offset = self.durable_end_offset
        if self.is_replicated:
            high_watermark, context = self.log.high_watermark, self._context
            if end_offset <= high_watermark or self.is_under_min_isr:
                return  # REP-2
            end_offset = self.followers.lowest_end_offset(
                end_offset,
                self.maximal_isr,
                high_watermark,
                context.now_ms,
                context.lag_ms_max,
            )
        if self.log.advance_high_watermark(end_offset):
            if self._listeners:
                for listener in self._listeners.values():
                    listener.offsets_moved()
            self._on_progress(self)

    def take_leader_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take over the leader's offsets, at most up to the own log end (REP-4)."""
        log = self.log
        has_moved = log.advance_high_watermark(high_watermark)
        if log.advance_log_start_offset(log_start_offset) or has_moved:
            self._on_progress(self)

    # Followers.

    def listener_of(self, node_id: int) -> PartitionListener | None:
        """The listener of a follower; None if it has none."""
        return self._listeners.get(node_id)

    def listen(self, node_id: int, listener: PartitionListener) -> None:
        """Set the listener of a follower."""
        self._listeners[node_id] = listener

    def stop_listening(self, node_id: int, listener: PartitionListener) -> None:
        """Remove the listener of a follower, unless it has another by now."""
        if self._listeners.get(node_id) is listener:
            del self._listeners[node_id]

    def follower_fetched(
        self,
        node_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
    ) -> None:
        """Note how far a follower is: its fetch offset is its log end (REP-3).

        The fetch was found valid before: its offset is in the log, and its last epoch leads there.
        Raises: KafkaError 6 or 75, see `FollowerStates.fetching`.
        """
        state = self.followers.fetching(node_id, broker_epoch)
        has_moved = fetch_offset != state.log_end_offset
        has_start_moved = log_start_offset != state.log_start_offset
        state.fetched(broker_epoch, fetch_offset, log_start_offset, self.log.log_end_offset, now_ms)
        if node_id not in self.maximal_isr:
            self._expand()
        if has_moved:
            self.advance()
        if has_start_moved:
            self._on_progress(self)  # the low watermark may be another

    def low_watermark(self) -> int:
        """The log start that all live replicas have reached."""
        return self.followers.lowest_start_offset(self.log.log_start_offset)

    def start_offset_moved(self) -> None:
        """Send followers the new log start."""
        for listener in self._listeners.values():
            listener.offsets_moved(is_urgent=True)
        self._on_progress(self)

    # The ISR.

    def check_isr_shrink(self, now_ms: int) -> None:
        """Propose an ISR without those that lag (REP-6), or with those that have caught up."""
        if not self.is_leader or not self.is_replicated or self.log.is_offline:
            return
        if self.log.log_start_offset != self.sent_start_offset:
            # Retention has moved it: followers get it with their next fetch.
            self.sent_start_offset = self.log.log_start_offset
            for listener in self._listeners.values():
                listener.offsets_moved()
        if self.proposed_isr is not None:
            return
        isr = self.image.isr
        lagging = self.followers.lagging(
            isr, self.log.log_end_offset, now_ms, self._context.lag_ms_max()
        )
        if lagging:
            self._propose(tuple(node for node in isr if node not in lagging))
        self.brokers_changed()

    def forget_other_incarnations(self) -> None:
        """Forget what brokers fetched that are registered anew: before anything counts on it."""
        if self.is_leader and self.is_replicated:
            self.followers.forget_other_incarnations(self.image.isr, self._context.now_ms())

    def brokers_changed(self) -> None:
        """See who may join the ISR now that the metadata of brokers, or the time, is another."""
        if self.is_leader and self.is_replicated:
            self._expand()
            self.advance()

    def _expand(self) -> None:
        """Propose an ISR with those that belong into it, one at a time (REP-7, REP-8)."""
        isr = self.image.isr
        if self.proposed_isr is not None or len(isr) == len(self.image.replicas):
            return
        log, context = self.log, self._context
        joining = self.followers.joining(
            isr,
            max(log.high_watermark, self.leading_since_offset),
            log.log_end_offset,
            context.now_ms(),
            context.lag_ms_max(),
        )
        if joining:
            self._propose((*isr, *joining))

    def _propose(self, isr: tuple[int, ...]) -> None:
        # From now on the controller may have it: who is in either counts for the high watermark.
        self.proposed_isr = isr
        self.maximal_isr = frozenset((*self.image.isr, *isr))
        if not self._context.propose_isr(self, isr):
            self.isr_refused()

    def isr_refused(self) -> None:
        """Go back to the committed ISR: the proposed one is certainly not in force (REP-8)."""
        self.proposed_isr = None
        self.maximal_isr = frozenset(self.image.isr)
        self.advance()

"""Produce requests at the leader: append to each partition, then wait until acks are met.

`LeaderAppend` appends what a request carries. `DelayedProduce` waits in the purgatory for the other
replicas, or for an fsync. Not the wire format (the handler's) and not the log's rules.

Source: REQ-1 to REQ-4, VOL-4.
Invariant: a request gets its results exactly once, and only after the data of every partition that
succeeded is in its file.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.errors import NotOneBatchError, RefusalCounts
from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.validator import CheckedBatch, HeavyBatchError, work_of_look
from barnabas_broker.network.heavy_work import SLICE, Pause
from barnabas_broker.purgatory.purgatory import DelayedOperation, Purgatory
from barnabas_broker.replication.leader.refused_batches import RefusedBatches
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.errors import ErrorCode, KafkaError, is_retriable
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.batch import is_transactional

ACKS_ALL = -1
LOOKED_INTO_MAX = 2_000
"""Records of batches that are looked into in a turn of the loop, of all requests: about 5 ms."""
TopicRecords = Sequence[tuple[TopicPartition, bytes, Buffer | None]]
# Index among the results, topic id, records, and what checks them.
HeavyAppend = tuple[int, bytes, Buffer | None, HeavyBatchError]
CheckApart = Callable[[Callable[[], CheckedBatch]], Awaitable[CheckedBatch]]
"""Has a check done in a thread."""
HeavyAppends = Callable[[CheckApart, Pause], Awaitable[None]]
"""What is left of a request whose batches take long to check or are very many."""
# Errors of Produce that come without a log start offset, as in Apache Kafka.
_REFUSED_WITHOUT_LOG = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)


class ProduceResult:
    """The outcome for one partition of a request.

    With an error, `partition` is the one whose log refused the batch, if it came that far.
    Made in the very step of the append: what interrupts the partition later fails the batch.
    """

    __slots__ = ("_interruption_count", "error", "info", "partition", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        partition: Partition | None,
        info: AppendInfo | None,
        error: KafkaError | None,
    ) -> None:
        self.topic_partition = topic_partition
        self.partition = partition
        self.info = info
        self.error = error
        self._interruption_count = 0 if partition is None else partition.interruption_count

    def settle(self, acks: int) -> bool:
        """Whether the outcome is final; sets the error where the batch is not acknowledged."""
        partition, info = self.partition, self.info
        assert partition is not None
        assert info is not None
        try:
            return partition.check_acknowledged(
                info.last_offset + 1, acks, self._interruption_count
            )
        except KafkaError as error:
            self.error = error
            return True


Done = Callable[[Sequence[ProduceResult]], None]


class DelayedProduce(DelayedOperation):
    """A produce that waits until all of its partitions are acknowledged."""

    __slots__ = ("_acks", "_done", "_results", "_unsettled")

    def __init__(
        self,
        results: Sequence[ProduceResult],
        unsettled: list[ProduceResult],
        acks: int,
        timeout_ms: int,
        done: Done,
    ) -> None:
        super().__init__(timeout_ms)
        self._results = results
        self._unsettled = unsettled
        self._acks = acks
        self._done = done

    def try_complete(self) -> bool:
        """Complete if every partition is settled."""
        return settle(self._unsettled, self._acks) and self.force_complete()

    def on_complete(self) -> None:
        """Hand over the results."""
        self._done(self._results)

    def on_expire(self) -> None:
        """Fail what is not settled with REQUEST_TIMED_OUT; its data stays in the log (REQ-3)."""
        for result in self._unsettled:
            if not result.settle(self._acks):
                result.error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def settle(unsettled: list[ProduceResult], acks: int) -> bool:
    """Take out partitions up to one that cannot be settled yet; returns whether none is left.

    It is called whenever one of them has moved: all of them each time would be their square.
    """
    while unsettled and unsettled[-1].settle(acks):
        unsettled.pop()
    return not unsettled


class ProducerTransaction(Protocol):
    """The transaction in which the batches of one request are to be appended."""

    def check(self, partition: Partition) -> None:
        """Verify that the partition is in the open transaction. Raises: KafkaError."""
        ...

    def appended(self, partition: Partition) -> None:
        """Note that a batch was appended: the transaction is open here from now on."""
        ...


class LeaderAppend:
    """Appends the batches of produce requests to the partitions led here."""

    def __init__(
        self,
        *,
        node_id: int,
        partitions: Mapping[TopicPartition, Partition],
        find: Callable[[TopicPartition], Partition],
        logs: LogManager,
        turn: Turn,
        purgatory: Purgatory,
    ) -> None:
        """`find` raises KafkaError for a partition that is not among `partitions`."""
        self._node_id = node_id
        self._partitions = partitions
        self._find = find
        self._logs = logs
        self._guard = logs.disk_guard
        self._turn = turn
        self._purgatory = purgatory
        self._refused_batches = RefusedBatches()
        self._share_turn, self._share_left = -1, 0  # of looking into batches
        self.refused_full_count = 0  # appends that a full disk has refused
        self.refusals = RefusalCounts()

    def produce(
        self,
        entries: TopicRecords,
        *,
        acks: int,
        timeout_ms: int,
        now_ms: int,
        done: Done,
        transaction: ProducerTransaction | None = None,
    ) -> HeavyAppends | None:
        """Append to each partition.

        Transactional batches are refused but for those of an open `transaction`.
        `done` gets the results when they are final, never before the data is in the files.
        Returns what is left where batches take long to check or are very many: that is to be
        awaited then, and until its end nothing else of the same connection appended.
        """
        results: list[ProduceResult] = []
        heavy: list[HeavyAppend] = []
        append_each = partial(self._append_each, results, heavy, acks, now_ms, transaction)
        has_appended, taken = append_each(entries[:SLICE] if len(entries) > SLICE else entries)

        async def append_rest(check_apart: CheckApart, pause: Pause) -> None:
            done_count = taken
            while done_count < len(entries):
                await pause()
                left = entries[done_count : done_count + SLICE]
                done_count += append_each(left, is_resumed=True)[1]
            await self._append_heavy(results, heavy, acks, now_ms, transaction, check_apart)
            if any(result.info is not None for result in results):
                self._turn.after(partial(self._written, results, acks, timeout_ms, done))
            else:
                done(results)

        if heavy or taken < len(entries):
            return append_rest
        if has_appended:
            self._turn.after(partial(self._written, results, acks, timeout_ms, done))
        else:
            done(results)
        return None

    def _written(
        self, results: Sequence[ProduceResult], acks: int, timeout_ms: int, done: Done
    ) -> None:
        """Finish now that the turn's data is in the files, or wait for what is missing."""
        unsettled = [result for result in results if result.error is None]
        if settle(unsettled, acks):
            done(results)
            return
        delayed = DelayedProduce(results, unsettled, acks, timeout_ms, done)
        self._purgatory.watch(
            delayed, [result.topic_partition for result in results if result.info is not None]
        )

    def _append_each(
        self,
        results: list[ProduceResult],
        heavy: list[HeavyAppend],
        acks: int,
        now_ms: int,
        transaction: ProducerTransaction | None,
        entries: TopicRecords,
        *,
        is_resumed: bool = False,
    ) -> tuple[bool, int]:
        """Append to some partitions; returns whether anything was appended, and to how many.

        Ends before the first whose batch is looked into where this turn of the loop has had its
        share of that; one who has paused appends to one partition at least. What takes long to
        check is added to `heavy`.
        """
        if self._turn.turn_count != self._share_turn:
            self._share_turn, self._share_left = self._turn.turn_count, LOOKED_INTO_MAX
        has_appended, taken = False, 0
        for topic_partition, topic_id, records in entries:
            is_over = self._share_left <= 0 and (taken or not is_resumed)
            if is_over and self._looks_into(topic_partition):
                break
            taken += 1
            try:
                partition, info = self._append(
                    topic_partition, topic_id, records, acks, now_ms, transaction
                )
            except KafkaError as error:
                results.append(self._refused(topic_partition, topic_id, records, error))
                if self._looks_into(topic_partition):
                    self._share_left -= work_of_look(records)
            except HeavyBatchError as error:
                heavy.append((len(results), topic_id, records, error))
                results.append(ProduceResult(topic_partition, None, None, None))
            else:
                results.append(ProduceResult(topic_partition, partition, info, None))
                has_appended = True
                if partition.log.looks_into_batches:
                    self._share_left -= work_of_look(records)
        return has_appended, taken

    def _looks_into(self, topic_partition: TopicPartition) -> bool:
        partition = self._partitions.get(topic_partition)
        return partition is not None and partition.log.looks_into_batches

    async def _append_heavy(
        self,
        results: list[ProduceResult],
        heavy: Sequence[HeavyAppend],
        acks: int,
        now_ms: int,
        transaction: ProducerTransaction | None,
        check_apart: CheckApart,
    ) -> None:
        """Append the batches that take long to check, each once it has been checked in a thread."""
        for index, topic_id, records, error in heavy:
            topic_partition, left = results[index].topic_partition, error
            while results[index].info is None and results[index].error is None:
                try:
                    checked = await check_apart(left.check)
                    partition, info = self._append(
                        topic_partition, topic_id, records, acks, now_ms, transaction, checked
                    )
                except HeavyBatchError as again:  # the topic's settings have changed meanwhile
                    left = again
                except KafkaError as refusal:
                    results[index] = self._refused(topic_partition, topic_id, records, refusal)
                else:
                    results[index] = ProduceResult(topic_partition, partition, info, None)

    def _append(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        acks: int,
        now_ms: int,
        transaction: ProducerTransaction | None,
        checked: CheckedBatch | None = None,
    ) -> tuple[Partition, AppendInfo]:
        partition = self._partitions.get(topic_partition)
        if partition is None:
            if topic_id != ZERO_UUID and not topic_partition.topic:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            partition = self._find(topic_partition)
        if topic_id not in (ZERO_UUID, partition.topic_id):
            # The name is another topic's by now, or still: nobody may write to that by this id.
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if partition.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write to it directly"
            )
        if self._guard.is_any_full:
            self._check_room(partition)
        if not records:
            raise NotOneBatchError("the partition has no record batch")
        if is_transactional(records):
            if transaction is None:
                # Whoever writes in a transaction must name its id, or nobody could ever end it.
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "a transactional batch without a transactional id",
                )
            transaction.check(partition)
        else:
            transaction = None
        if self._refused_batches.by_producer:
            self._refused_batches.check(partition, records)
        info = partition.append(records, acks, now_ms, checked=checked)
        if transaction is not None:
            transaction.appended(partition)
        return partition, info

    def _check_room(self, partition: Partition) -> None:
        """Refuse an append where the disk is full (VOL-4). Raises: KafkaError 56."""
        if partition.log.is_offline:
            return
        directory = self._logs.directory_of(partition.log)
        if self._guard.room(directory) >= Room.FULL:
            self.refused_full_count += 1
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"broker {self._node_id}: {self._guard.why_full(directory)}",
            )

    def _refused(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        error: KafkaError,
    ) -> ProduceResult:
        """The result of a batch that is not appended."""
        self.refusals.note(error)
        known = self._partitions.get(topic_partition)
        if is_retriable(error.code):
            self._refused_batches.note(topic_partition, topic_id, records, known)
        if error.code in _REFUSED_WITHOUT_LOG or isinstance(error, NotOneBatchError):
            known = None  # no log has refused it
        return ProduceResult(topic_partition, known, None, error)

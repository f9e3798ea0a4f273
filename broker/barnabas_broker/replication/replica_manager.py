"""The requests that read and write partitions of this broker.

Finds partitions by name or id, appends, reads, and parks what must wait. Which partitions there are
is `replica_set.py`'s; it does not decide who leads (the controller does) nor store anything (the
log manager does). Source: REQ-1 of the behaviour list.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.append_info import AppendInfo
from barnabas_broker.log.disk_room import Room
from barnabas_broker.log.errors import NotOneBatchError
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.validator import CheckedBatch, HeavyBatchError
from barnabas_broker.network.heavy_work import SLICE, Pause
from barnabas_broker.network.turn import Turn
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.fetch_session import FetchPartition
from barnabas_broker.replication.fetching import Fetching, FetchParameters, PartitionData
from barnabas_broker.replication.follower_fetching import FollowerFetches
from barnabas_broker.replication.many_fetching import fetch_many
from barnabas_broker.replication.partition import NO_EPOCH, Partition
from barnabas_broker.replication.producing import (
    CheckApart,
    HeavyAppend,
    HeavyAppends,
    ProduceResult,
    Production,
    TopicRecords,
)
from barnabas_broker.replication.refused_batches import RefusedBatches
from barnabas_broker.replication.replica_set import ReplicaSet, TopicConfig
from barnabas_protocol.errors import ErrorCode, KafkaError, is_retriable
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT

CLIENT_READS_MAX = 2
"""Reads of clients that keep a thread of the disk's at a time. The other threads are for followers,
flushes, the metadata log and the arbiter: a hundred fetches of old records must not keep a leader
from reading its own lease."""
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


class ReplicaManager(ReplicaSet):
    """The partitions of one broker and the requests that wait on them."""

    def __init__(
        self,
        *,
        node_id: int,
        logs: LogManager,
        topic_config: TopicConfig,
        turn: Turn,
        produce_purgatory: Purgatory,
        fetch_purgatory: Purgatory,
        clock: Clock,
        lag_ms_max: int,
    ) -> None:
        super().__init__(
            node_id=node_id,
            logs=logs,
            topic_config=topic_config,
            turn=turn,
            clock=clock,
            lag_ms_max=lag_ms_max,
        )
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.follower_fetches = FollowerFetches(
            partitions=self.partitions,
            find=self.find_leader,
            purgatory=fetch_purgatory,
            after=lambda callback: turn.after(callback),
            spawn=self._spawn,
            find_broker=self._context.find_broker,
        )
        self.on_brokers.append(self.follower_fetches.brokers_changed)
        self.on_leadership.append(self.follower_fetches.leadership_changed)
        self._refused_batches = RefusedBatches()
        self.client_reads = asyncio.Semaphore(CLIENT_READS_MAX)
        self._guard = logs.disk_guard
        self.refused_full_count = 0  # appends that a full disk has refused

    # Look-ups.

    def find(self, topic_partition: TopicPartition) -> Partition:
        """The partition of that name.

        Raises: KafkaError 3 where there is none, 56 where its directory is offline, 6 where it
        lives elsewhere.
        """
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            return partition
        topic = self.image.topics.by_name.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._node_id in topic.partitions[topic_partition.partition].replicas:
            if self._is_applying:  # it is about to be made
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def find_leader(self, request: FetchPartition) -> Partition:
        """The partition that a fetch asks for, led here.

        Raises: KafkaError also for an unknown id (100), another id than ours (103) and leader
        epochs (74, 75).
        """
        partition = self._find_named(request)
        partition.check_leader(max(NO_EPOCH, request.current_leader_epoch))
        return partition

    def find_replica(self, request: FetchPartition) -> Partition:
        """The partition that a consumer asks for, led here or not (KIP-392).

        Raises: KafkaError as `find_leader`.
        """
        partition = self._find_named(request)
        partition.check_replica(max(NO_EPOCH, request.current_leader_epoch))
        return partition

    def _find_named(self, request: FetchPartition) -> Partition:
        if not request.topic_partition.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.find(request.topic_partition)
        if request.topic_id != ZERO_UUID and partition.topic_id != request.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    # Produce and fetch.

    def produce(
        self,
        entries: TopicRecords,
        *,
        acks: int,
        timeout_ms: int,
        now_ms: int,
        done: Callable[[Sequence[ProduceResult]], None],
    ) -> HeavyAppends | None:
        """Append to each partition.

        `done` gets the results when they are final, never before the data is in the files.
        Returns what is left where batches take long to check or are very many: that is to be
        awaited then, and until its end nothing else of the same connection appended.
        """
        results: list[ProduceResult] = []
        heavy: list[HeavyAppend] = []
        rest = entries[SLICE:] if len(entries) > SLICE else ()
        append_each = partial(self._append_each, results, heavy, acks, now_ms)
        wait = append_each(entries[:SLICE] if rest else entries)

        def appended(is_waiting: bool) -> None:
            if not is_waiting:
                done(results)
                return
            production = Production(results, acks, timeout_ms, done, self.produce_purgatory)
            self._turn.after(production.written)

        async def append_rest(check_apart: CheckApart, pause: Pause) -> None:
            for start in range(0, len(rest), SLICE):
                await pause()
                append_each(rest[start : start + SLICE])
            await self._append_heavy(results, heavy, acks, now_ms, check_apart)
            appended(any(result.info is not None for result in results))

        if heavy or rest:
            return append_rest
        appended(wait)
        return None

    def _append_each(
        self,
        results: list[ProduceResult],
        heavy: list[HeavyAppend],
        acks: int,
        now_ms: int,
        entries: TopicRecords,
    ) -> bool:
        """Append to each partition; tells whether anything was appended.

        What takes long to check is put with `heavy`.
        """
        wait = False
        for topic_partition, topic_id, records in entries:
            try:
                partition, info = self._append(topic_partition, topic_id, records, acks, now_ms)
            except KafkaError as error:
                results.append(self._refused(topic_partition, topic_id, records, error))
            except HeavyBatchError as error:
                heavy.append((len(results), topic_id, records, error))
                results.append(ProduceResult(topic_partition, None, None, None))
            else:
                results.append(ProduceResult(topic_partition, partition, info, None))
                wait = True
        return wait

    async def _append_heavy(
        self,
        results: list[ProduceResult],
        heavy: Sequence[HeavyAppend],
        acks: int,
        now_ms: int,
        check_apart: CheckApart,
    ) -> None:
        """Append the batches that take long to check, each once it has been checked in a thread."""
        for place, topic_id, records, error in heavy:
            topic_partition, left = results[place].topic_partition, error
            while results[place].info is None and results[place].error is None:
                try:
                    checked = await check_apart(left.check)
                    partition, info = self._append(
                        topic_partition, topic_id, records, acks, now_ms, checked
                    )
                except HeavyBatchError as again:  # the topic's settings have changed meanwhile
                    left = again
                except KafkaError as refusal:
                    results[place] = self._refused(topic_partition, topic_id, records, refusal)
                else:
                    results[place] = ProduceResult(topic_partition, partition, info, None)

    def _refused(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        error: KafkaError,
    ) -> ProduceResult:
        """The result of a batch that is not appended."""
        if is_retriable(error.code):
            known = self.partitions.get(topic_partition)
            self._refused_batches.note(topic_partition, topic_id, records, known)
        refusing = self._refusing(topic_partition, error)
        return ProduceResult(topic_partition, refusing, None, error)

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

    def _append(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        acks: int,
        now_ms: int,
        checked: CheckedBatch | None = None,
    ) -> tuple[Partition, AppendInfo]:
        partition = self.partitions.get(topic_partition)
        if partition is None:
            if topic_id != ZERO_UUID and not topic_partition.topic:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            partition = self.find(topic_partition)
        if partition.is_internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, "clients may not write to it directly"
            )
        if self._guard.is_any_full:
            self._check_room(partition)
        if not records:
            raise NotOneBatchError("the partition has no record batch")
        if len(records) > HEADER_BYTES and records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT:
            # Whoever writes in a transaction must name its id, or nobody could ever end it.
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch without a transactional id",
            )
        if self._refused_batches:
            self._refused_batches.check(partition, records)
        return partition, partition.append(records, acks, now_ms, checked=checked)

    def _refusing(self, topic_partition: TopicPartition, error: KafkaError) -> Partition | None:
        """The partition whose log refused a batch; None if it was refused before, or by no log."""
        if error.code in _REFUSED_WITHOUT_LOG or isinstance(error, NotOneBatchError):
            return None
        return self.partitions.get(topic_partition)

    def fetch(
        self,
        partitions: Sequence[FetchPartition],
        parameters: FetchParameters,
        done: Callable[[list[PartitionData]], None],
    ) -> Fetching:
        """Read partitions, at once or when there is enough.

        `done` gets one result per partition, in order.
        """
        fetching = self._fetching(partitions, parameters, done)
        if not fetching.try_complete():
            self.fetch_purgatory.try_complete_else_watch(fetching, fetching.keys)
        return fetching

    async def fetch_many(
        self, partitions: Sequence[FetchPartition], parameters: FetchParameters, pause: Pause
    ) -> list[PartitionData]:
        """The same for so many partitions that the loop must go on while they are read."""
        fetching = self._fetching(partitions, parameters, lambda _: None)
        return await fetch_many(fetching, parameters.max_wait_ms, self.fetch_purgatory, pause)

    def _fetching(
        self,
        partitions: Sequence[FetchPartition],
        parameters: FetchParameters,
        done: Callable[[list[PartitionData]], None],
    ) -> Fetching:
        find = self.find_leader if parameters.leader_only else self.find_replica
        return Fetching(partitions, parameters, find, self._spawn, done)

    def _progressed(self, partition: Partition) -> None:
        # Most of the time nobody waits: two attributes are quicker than two look-ups.
        if self.produce_purgatory.watched_count:
            self.produce_purgatory.check_and_complete(partition.topic_partition)
        if self.fetch_purgatory.watched_count:
            self.fetch_purgatory.check_and_complete(partition.topic_partition)

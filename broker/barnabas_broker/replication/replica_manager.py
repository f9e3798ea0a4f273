"""All partitions of this broker.

Made, changed and dropped as the metadata image says, found by their name or id.

It does not decide who leads (the controller does) nor store anything (the log manager does).
Source: REQ-1 and TOP-14 of the behaviour list. Invariant: a partition is here exactly if the newest
image assigns it to this broker and its log could be opened.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import LogDirectoryError, NotOneBatchError
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.partition_log import AppendInfo
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas_broker.network.turn import Turn
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.fetch_session import FetchPartition
from barnabas_broker.replication.fetching import Fetching, FetchParameters, PartitionData
from barnabas_broker.replication.partition import NO_EPOCH, Partition
from barnabas_broker.replication.partition_state import IsrProposals, ReplicationContext
from barnabas_broker.replication.producing import ProduceResult, Production, TopicRecords
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, TRANSACTIONAL_BIT

logger = logging.getLogger(__name__)

# Making this many takes some tens of milliseconds.
PARTITIONS_PER_TURN = 20

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

TopicConfig = Callable[[str], LogConfig]


class ReplicaManager:
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
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self._turn = turn
        self.produce_purgatory = produce_purgatory
        self.fetch_purgatory = fetch_purgatory
        self.partitions: dict[TopicPartition, Partition] = {}
        self.image = MetadataImage.empty()
        self._tasks: set[asyncio.Task[None]] = set()
        # Set where there is a controller to ask: an ISR never changes otherwise.
        self.isr_changes: IsrProposals | None = None
        self._context = ReplicationContext(
            now_ms=clock.monotonic_ms,
            find_broker=lambda node_id: self.image.brokers.get(node_id),
            lag_ms_max=lambda: lag_ms_max,
            propose_isr=self._propose_isr,
        )
        self._is_applying = False
        # Set when the broker stops: partitions that are not made yet wait for the next start.
        self.is_closing = False
        self.on_leadership: list[Callable[[Partition], None]] = []
        self.on_removed: list[Callable[[TopicPartition], None]] = []
        self.on_directory_offline: list[Callable[[LogDirectory], None]] = []
        logs.on_directory_offline = self._directory_went_offline

    # Metadata.

    async def apply(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Bring partitions in line with an image; with no delta, with all of it."""
        self.image = image
        self._is_applying = True
        try:
            if delta is None or delta.deleted:
                await self._drop_deleted(image)
            changed = image.topics.by_name if delta is None else delta.changed_topics
            # After a start, what the image has was there before.
            await self._apply_topics(changed, image, is_new=delta is not None)
            if delta is not None and delta.changed_brokers:
                for partition in self.partitions.values():
                    partition.brokers_changed()
        finally:
            self._is_applying = False

    async def _apply_topics(
        self, names: Iterable[str], image: MetadataImage, *, is_new: bool
    ) -> None:
        """Make and change partitions, giving way to the loop now and then."""
        made = 0
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                continue
            config: LogConfig | None = None
            for index, partition in enumerate(topic.partitions):
                if self._node_id not in partition.replicas:
                    continue
                if self.is_closing:
                    return
                existing = self.partitions.get(TopicPartition(name, index))
                if existing is not None:
                    self._change_partition(existing, partition)
                    continue
                config = config or self._topic_config(name)
                self._make_partition(topic, index, partition, config, is_new=is_new)
                made += 1
                if made % PARTITIONS_PER_TURN == 0:
                    await asyncio.sleep(0)

    def _change_partition(self, existing: Partition, image: PartitionImage) -> None:
        if existing.image is image:
            return
        was_leader = existing.is_leader
        existing.become(image)
        if existing.is_leader != was_leader:
            self._leadership_changed(existing)

    def _make_partition(
        self,
        topic: TopicImage,
        index: int,
        image: PartitionImage,
        config: LogConfig,
        *,
        is_new: bool,
    ) -> None:
        topic_partition = TopicPartition(topic.name, index)
        log = self._logs.get(topic_partition)
        if log is None:
            try:
                log = self._logs.create(
                    topic_partition,
                    topic.topic_id,
                    config,
                    is_new=is_new,
                    directory_id=self._directory_id(image),
                )
            except (KafkaError, LogDirectoryError, OSError) as error:
                logger.error("%s-%d has no log: %s", topic.name, index, error)
                return
        partition = Partition(
            topic_partition,
            topic.topic_id,
            image,
            log,
            node_id=self._node_id,
            turn=self._turn,
            tasks=self._tasks,
            on_progress=self._progressed,
            on_directory_error=self._directory_failed,
            context=self._context,
        )
        self.partitions[topic_partition] = partition
        if partition.is_leader:
            partition.start_leading()
            self._leadership_changed(partition)

    async def _drop_deleted(self, image: MetadataImage) -> None:
        """Stop serving topics that are no longer there under their id; files go later (TOP-14)."""
        by_id = image.topics.by_id
        gone = [p for p in self.partitions.values() if p.topic_id not in by_id]
        for partition in gone:
            del self.partitions[partition.topic_partition]
            for removed in self.on_removed:
                removed(partition.topic_partition)
            self.produce_purgatory.check_and_complete(partition.topic_partition)
            self.fetch_purgatory.check_and_complete(partition.topic_partition)
            await self._logs.delete(partition.topic_partition)
        if gone:
            await self._logs.note_deletions()

    def _directory_id(self, image: PartitionImage) -> bytes:
        """The directory that the metadata remembers for the replica here, zero for none."""
        if not image.directories:
            return ZERO_UUID
        return image.directories[image.replicas.index(self._node_id)]

    def misplaced(self, delta: MetadataDelta | None) -> dict[TopicPartition, bytes]:
        """The directories of the logs that are not where the metadata remembers them."""
        by_path = {item.path: item.directory_id for item in self._logs.directories}
        found: dict[TopicPartition, bytes] = {}
        for name in self.image.topics.by_name if delta is None else delta.changed_topics:
            topic = self.image.topics.by_name.get(name)
            for index in range(0 if topic is None else len(topic.partitions)):
                partition = self.partitions.get(TopicPartition(name, index))
                if partition is None or partition.log.is_offline:
                    continue
                directory_id = by_path[partition.log.directory.rpartition("/")[0]]
                if self._directory_id(partition.image) != directory_id:
                    found[partition.topic_partition] = directory_id
        return found

    def _propose_isr(self, partition: Partition, isr: tuple[int, ...]) -> bool:
        if self.isr_changes is None:
            return False
        self.isr_changes.propose(partition, isr)
        return True

    def _leadership_changed(self, partition: Partition) -> None:
        for changed in self.on_leadership:
            changed(partition)
        self._progressed(partition)

    # Faults.

    def _directory_failed(self, error: LogDirectoryError) -> None:
        self._logs.take_offline(error.path, error)

    def _directory_went_offline(self, directory: LogDirectory) -> None:
        """Answer everything that waits on a partition of a failed directory (LOG-11)."""
        for partition in self.partitions.values():
            if partition.log.is_offline:
                self._progressed(partition)
        for went_offline in self.on_directory_offline:
            went_offline(directory)

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
        """The partition that a fetch asks for.

        Raises: KafkaError also for an unknown id (100), another id than ours (103) and leader
        epochs (74, 75).
        """
        if not request.topic_partition.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.find(request.topic_partition)
        if request.topic_id != ZERO_UUID and partition.topic_id != request.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        partition.check_leader(max(NO_EPOCH, request.current_leader_epoch))
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
    ) -> None:
        """Append to each partition.

        `done` gets the results when they are final, never before the data is in the files.
        """
        results: list[ProduceResult] = []
        wait = False
        for topic_partition, topic_id, records in entries:
            try:
                partition, info = self._append(topic_partition, topic_id, records, acks, now_ms)
            except KafkaError as error:
                refusing = self._refusing(topic_partition, error)
                results.append(ProduceResult(topic_partition, refusing, None, error))
            else:
                results.append(ProduceResult(topic_partition, partition, info, None))
                wait = True
        if not wait:
            done(results)
            return
        production = Production(results, acks, timeout_ms, done, self.produce_purgatory)
        self._turn.after(production.written)

    def _append(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        acks: int,
        now_ms: int,
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
        if not records:
            raise NotOneBatchError("the partition has no record batch")
        if len(records) > HEADER_BYTES and records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT:
            # Whoever writes in a transaction must name its id, or nobody could ever end it.
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch without a transactional id",
            )
        return partition, partition.append(records, acks, now_ms)

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
        fetching = Fetching(partitions, parameters, self.find_leader, self._spawn, done)
        if not fetching.try_complete():
            self.fetch_purgatory.try_complete_else_watch(fetching, fetching.keys)
        return fetching

    def _progressed(self, partition: Partition) -> None:
        # Most of the time nobody waits: two attributes are quicker than two look-ups.
        if self.produce_purgatory.watched_count:
            self.produce_purgatory.check_and_complete(partition.topic_partition)
        if self.fetch_purgatory.watched_count:
            self.fetch_purgatory.check_and_complete(partition.topic_partition)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Make no more partitions, and wait for the reads and flushes that are under way."""
        self.is_closing = True
        while self._tasks:
            # Unlike `gather`, this gives way to the loop also where all have ended, so that their
            # callbacks take them out of the set.
            await asyncio.wait(self._tasks)

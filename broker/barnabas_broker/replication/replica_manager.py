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
from barnabas_broker.env.disk import Buffer
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.log_directory import LogDirectory
from barnabas_broker.log.log_manager import LogManager
from barnabas_broker.log.partition_log import AppendInfo
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas_broker.network.turn import Turn
from barnabas_broker.purgatory.purgatory import Purgatory
from barnabas_broker.replication.fetch_session import FetchPartition
from barnabas_broker.replication.fetching import Fetching, FetchParameters, PartitionData
from barnabas_broker.replication.partition import Partition
from barnabas_broker.replication.producing import ProduceResult, Production, TopicRecords
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID, TopicPartition

logger = logging.getLogger(__name__)

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
        self.on_leadership: list[Callable[[Partition], None]] = []
        self.on_removed: list[Callable[[TopicPartition], None]] = []
        self.on_directory_offline: list[Callable[[LogDirectory], None]] = []
        logs.on_directory_offline = self._directory_went_offline

    # Metadata.

    async def apply(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Bring partitions in line with an image; with no delta, with all of it."""
        self.image = image
        if delta is None:
            changed: Iterable[str] = image.topics.by_name
            deleted: Iterable[str] = ()
        else:
            changed, deleted = delta.changed_topics, delta.deleted
        for name in deleted:
            await self._drop_topic(name, keep_id=None)
        for name in changed:
            topic = image.topics.by_name.get(name)
            if topic is not None:
                await self._drop_topic(name, keep_id=topic.topic_id)
                for index, partition in enumerate(topic.partitions):
                    self._apply_partition(topic, index, partition)

    def _apply_partition(self, topic: TopicImage, index: int, image: PartitionImage) -> None:
        if self._node_id not in image.replicas:
            return
        topic_partition = TopicPartition(topic.name, index)
        existing = self.partitions.get(topic_partition)
        if existing is not None:
            was_leader = existing.is_leader
            existing.become(image)
            if existing.is_leader != was_leader:
                self._leadership_changed(existing)
            return
        log = self._logs.get(topic_partition)
        if log is None:
            try:
                log = self._logs.create(
                    topic_partition, topic.topic_id, self._topic_config(topic.name)
                )
            except (LogDirectoryError, OSError) as error:
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
        )
        self.partitions[topic_partition] = partition
        if partition.is_leader:
            partition.start_leading()
            self._leadership_changed(partition)

    async def _drop_topic(self, name: str, keep_id: bytes | None) -> None:
        """Stop serving a topic of that name, unless it has the id; its files go later (TOP-14)."""
        gone = [
            partition
            for topic_partition, partition in self.partitions.items()
            if topic_partition.topic == name and partition.topic_id != keep_id
        ]
        for partition in gone:
            del self.partitions[partition.topic_partition]
            for removed in self.on_removed:
                removed(partition.topic_partition)
            self.produce_purgatory.check_and_complete(partition.topic_partition)
            self.fetch_purgatory.check_and_complete(partition.topic_partition)
            await self._logs.delete(partition.topic_partition)

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
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def find_leader(self, request: FetchPartition) -> Partition:
        """The partition that a fetch asks for.

        Raises: KafkaError also for an unknown id (100), another id than ours (103) and leader
        epochs (74, 75).
        """
        if request.topic_id != ZERO_UUID and not request.topic_partition.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.find(request.topic_partition)
        if request.topic_id != ZERO_UUID and partition.topic_id != request.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        partition.check_leader(request.current_leader_epoch)
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
                results.append(ProduceResult(topic_partition, None, None, error))
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
            raise KafkaError(ErrorCode.INVALID_RECORD, "the partition has no record batch")
        return partition, partition.append(records, acks, now_ms)

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
        """Wait for the reads and flushes that are under way."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

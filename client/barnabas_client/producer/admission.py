"""Puts a record into a batch, or lets it wait for metadata or memory. Pure.

A topic is open while its partitions are known and none of its records waits: only then records go
straight into batches (`Producer.send` does that inline for the most frequent ones). So the records
of a topic never overtake each other here.

Invariants: waiting records are bounded by `buffer_memory`, and each of them by `max_block_ms`; a
waiting record has a delivery group of its own, which moves into the batch.
"""

from __future__ import annotations

import operator
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import (
    AbortableError,
    BarnabasError,
    BufferFullError,
    NotFoundError,
    StaleMetadataError,
    TimedOutError,
    UsageError,
    error_for,
)
from barnabas_client.producer.accumulator import RecordAccumulator
from barnabas_client.producer.batch import record_size
from barnabas_client.producer.delivery import Delivery, DeliveryGroup
from barnabas_client.producer.partitioner import Partitioner
from barnabas_client.producer.queues import KeptKeys, PartitionQueue, Sequences, TopicQueues
from barnabas_client.producer.record_encoding import Headers
from barnabas_protocol.errors import ErrorCode

# What a waiting record takes besides its bytes: with small ones that is most of it, so that their
# number is bounded, too.
_OBJECTS_BYTES: Final = 500
_WAITING_RECORDS_MIN: Final = 1000
# Error codes of a topic that waiting for its leaders does not cure.
_LASTING_ERRORS: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
)


@dataclass(slots=True)
class WaitingRecord:
    """A record that waits."""

    group: DeliveryGroup
    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Headers
    size: int
    deadline_ms: int
    metadata_version: int


class Admission:
    """Topics, their partitions, and the records that wait for them."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: RecordAccumulator,
        randomness: random.Random,
        want_topic: Callable[[str], None],
    ) -> None:
        self.open_topics: dict[str, TopicQueues] = {}
        self.topics: dict[str, TopicQueues] = {}
        self.waiting: dict[str, deque[WaitingRecord]] = {}
        self.waiting_bytes = 0
        self._waiting_count = 0
        self._waiting_count_max = max(
            _WAITING_RECORDS_MIN, settings.buffer_memory // _OBJECTS_BYTES
        )
        self.cluster = ClusterMetadata()
        self._accumulator = accumulator
        self._random = randomness
        self._want_topic = want_topic
        self._batch_size = settings.batch_size
        self._buffer_memory = settings.buffer_memory
        self._max_block_ms = settings.max_block_ms
        self._is_idempotent = settings.enable_idempotence
        self._kept_keys = KeptKeys()
        # Called for each waiting record that fails: it may belong to a transaction.
        self.on_failure: Callable[[BarnabasError], None] = _ignore
        # Of topics that were forgotten: sequences are for the producer's life.
        self._kept_sequences: dict[str, Sequences] = {}
        self._partitioner: Partitioner | None = settings.partitioner
        self._ignores_keys = settings.partitioner_ignore_keys

    @property
    def is_backlogged(self) -> bool:
        """Whether callers of `send` should wait: memory is exhausted, or many records wait."""
        if not self.waiting:
            return False
        if self._accumulator.is_exhausted or self.waiting_bytes * 4 > self._buffer_memory:
            return True
        return self._waiting_count * 4 > self._waiting_count_max

    def update(self, cluster: ClusterMetadata) -> None:
        """Take over partitions and leaders of the topics that were ever sent to."""
        self.cluster = cluster
        for name, topic in self.topics.items():
            known = cluster.topics.get(name)
            if known is not None:
                topic.update(known)

    def accept(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        now_ms: int,
    ) -> Delivery:
        """Put the record into a batch, or let it wait.

        Raises: BufferFullError if too many records wait; UsageError from a partitioner.
        """
        size = record_size(key, value, headers)
        queues = self.open_topics.get(topic)
        if queues is not None:
            placed = self._place(queues, key, value, partition, timestamp_ms, headers, size, now_ms)
            if placed is not None:
                return placed
        return self._wait(topic, key, value, partition, timestamp_ms, headers, size, now_ms)

    def _place(
        self,
        topic: TopicQueues,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        size: int,
        now_ms: int,
    ) -> Delivery | None:
        """Append to a batch; None while there is no memory, or no such partition."""
        is_sticky = False
        if partition is None:
            partition = self._chosen_by_caller(topic, key, value)
        if partition is not None:
            if partition >= len(topic.queues):
                return None
            queue = topic.queues[partition]
        elif key is not None and not self._ignores_keys:
            queue = topic.by_key.get(key) or topic.queue_of_key(key)
        else:
            is_sticky = True
            queue = topic.sticky
        batch = queue.open_batch
        if batch is None or batch.room_bytes < size:
            if is_sticky:
                queue = topic.sticky_for_new_batch(self._batch_size)
                batch = queue.open_batch
            if batch is None or batch.room_bytes < size:
                batch = self._accumulator.new_batch(queue, size, now_ms)
                if batch is None:
                    return None
                if is_sticky:
                    topic.sticky_batch_begins(batch)
        return Delivery((batch, batch.append(key, value, headers, timestamp_ms, size)))

    def _chosen_by_caller(
        self, topic: TopicQueues, key: bytes | None, value: bytes | None
    ) -> int | None:
        if self._partitioner is None:
            return None
        count = len(topic.queues)
        try:
            given = self._partitioner(topic.name, key, value, count, topic.available_partitions)
            partition = operator.index(given)
        except BarnabasError:
            raise
        except Exception as failure:
            raise UsageError(f"the partitioner failed for {topic.name}: {failure!r}") from failure
        if not 0 <= partition < count:
            raise UsageError(
                f"the partitioner chose partition {partition} of {topic.name}, which has {count}"
            )
        return partition

    def _wait(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers,
        size: int,
        now_ms: int,
    ) -> Delivery:
        is_long = self._waiting_count >= self._waiting_count_max
        if is_long or self.waiting_bytes + size > self._buffer_memory:
            raise BufferFullError(
                "more records wait than buffer_memory allows: await producer.drain() after send()"
            )
        if topic not in self.topics:
            check_topic_name(topic)
        group = DeliveryGroup(topic, -1 if partition is None else partition)
        group.timestamps = [timestamp_ms]
        self.waiting_bytes += size
        self._waiting_count += 1
        records = self.waiting.get(topic)
        if records is None:
            records = self.waiting[topic] = deque()
            self.open_topics.pop(topic, None)
        deadline_ms = now_ms + self._max_block_ms
        version = self.cluster.version
        record = WaitingRecord(
            group, topic, key, value, partition, timestamp_ms, headers, size, deadline_ms, version
        )
        records.append(record)
        if topic not in self.topics or partition is not None:
            self._want_topic(topic)
        return Delivery((group, 0))

    def admit(self, now_ms: int) -> None:
        """Move waiting records into batches as metadata and memory allow; fail late ones."""
        for name in list(self.waiting):
            records = self.waiting[name]
            has_failed = False
            while records:
                record = records[0]
                try:
                    error = self._advance(record, now_ms)
                except BarnabasError as refused:
                    error = refused
                if record.group.moved_to is None and error is None:
                    break
                records.popleft()
                self.waiting_bytes -= record.size
                self._waiting_count -= 1
                if error is not None:
                    # One unseen failure in the log stands for all records of a topic.
                    record.group.was_seen = has_failed
                    has_failed = True
                    record.group.fail(error)
                    self.on_failure(error)
            if not records:
                del self.waiting[name]
                if name in self.topics:
                    self.open_topics[name] = self.topics[name]
        if len(self.waiting) > 1:
            # Another topic is first to get the memory that comes free next.
            name = next(iter(self.waiting))
            self.waiting[name] = self.waiting.pop(name)

    def _advance(self, record: WaitingRecord, now_ms: int) -> BarnabasError | None:
        """Move the record into a batch if it can be; what it fails with, if it fails."""
        queues = self.topics.get(record.topic) or self._discover(record.topic)
        if queues is not None:
            delivery = self._place(
                queues,
                record.key,
                record.value,
                record.partition,
                record.timestamp_ms,
                record.headers,
                record.size,
                now_ms,
            )
            if delivery is not None:
                record.group.move([(0, delivery[0], delivery[1])])
                return None
            if record.partition is not None and record.partition >= len(queues.queues):
                return self._no_such_partition(record, len(queues.queues), now_ms)
        known = self.cluster.topics.get(record.topic)
        if known is not None and known.error_code in _LASTING_ERRORS:
            return error_for(known.error_code, f"topic {record.topic}")
        if now_ms < record.deadline_ms:
            return None
        if queues is not None:
            return BufferFullError(
                f"buffer_memory stayed full for max_block_ms={self._max_block_ms}: the cluster is "
                "slower than this producer, or not reachable"
            )
        return self._no_metadata(record.topic)

    def _no_metadata(self, topic: str) -> BarnabasError:
        known = self.cluster.topics.get(topic)
        if known is None or known.error_code == ErrorCode.NONE:
            return TimedOutError(
                f"no metadata of topic {topic} within max_block_ms={self._max_block_ms}: "
                "is the cluster reachable?"
            )
        text = f"topic {topic} has no metadata within max_block_ms={self._max_block_ms}"
        if known.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return NotFoundError(f"{text}: it does not exist, create it first", known.error_code)
        return StaleMetadataError(text, known.error_code)

    def _no_such_partition(
        self, record: WaitingRecord, count: int, now_ms: int
    ) -> BarnabasError | None:
        if self.cluster.version == record.metadata_version and now_ms < record.deadline_ms:
            return None
        return NotFoundError(f"topic {record.topic} has no partition {record.partition}: {count}")

    def _discover(self, name: str) -> TopicQueues | None:
        known = self.cluster.topics.get(name)
        if known is None or not known.partitions:
            return None
        sequences = self._kept_sequences.pop(name, {}) if self._is_idempotent else None
        topic = TopicQueues(known, self._random, self._kept_keys, sequences)
        self.topics[name] = topic
        return topic

    def is_idle(self, name: str, since_ms: int) -> bool:
        """Whether nothing was sent to the topic since then, and none of its records waits."""
        topic = self.topics.get(name)
        if name in self.waiting:
            return False
        return topic is None or (topic.used_at_ms < since_ms and topic.is_empty)

    def forget(self, name: str) -> None:
        """Drop what is kept of an idle topic, except the sequences of its partitions."""
        self.open_topics.pop(name, None)
        topic = self.topics.pop(name, None)
        if topic is not None:
            topic.forget_keys()
            if topic.sequences:
                self._kept_sequences[name] = topic.sequences

    def next_deadline_ms(self) -> int | None:
        """When the first waiting record has waited long enough."""
        return min((records[0].deadline_ms for records in self.waiting.values()), default=None)

    def groups(self) -> Iterator[DeliveryGroup]:
        """The delivery groups of all waiting records."""
        for records in self.waiting.values():
            for record in records:
                yield record.group

    def abort(self, error: BarnabasError) -> None:
        """Fail all waiting records."""
        has_failed = isinstance(error, AbortableError)
        for records in self.waiting.values():
            for record in records:
                record.group.was_seen = has_failed
                has_failed = True
                record.group.fail(error)
        self.waiting.clear()
        self.waiting_bytes = self._waiting_count = 0
        self.open_topics.update(self.topics)

    def queue(self, topic: str, partition: int) -> PartitionQueue | None:
        """The queue of a partition that was sent to."""
        queues = self.topics.get(topic)
        if queues is None or partition >= len(queues.queues):
            return None
        return queues.queues[partition]


def _ignore(_: BarnabasError) -> None:
    """Without transactions nothing follows from it."""

"""The producer's queues: one per partition, and per topic the choice of a partition.

Not here: when a batch leaves its queue (`accumulator.py`), numbers (`idempotence.py`).

Invariants: a queue is in the order of its batches; at most its last batch is open, and `open_batch`
names that one; the sequences of a partition continue for the producer's life, also where the topic
id changes: a log that was created again takes any number for its first, but one whose topic a
lagging broker named by its former id would take numbers from 0 for duplicates; a queue is removed
only when its topic was created again with fewer partitions, and then its batches fail.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from barnabas_client.cluster.metadata import TopicMetadata
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.idempotence import PartitionSequences
from barnabas_client.producer.partitioner import choose_sticky, partition_of_key
from barnabas_protocol.ids import ZERO_UUID

# Keys whose partition is cached, of all topics: hashing one in Python takes microseconds.
_KEPT_KEYS: Final = 1 << 14
_KEPT_KEY_BYTES_MAX: Final = 64

# The sequences of a topic's partitions, also of those that are gone: they may come back.
Sequences = dict[int, PartitionSequences]


class KeptKeys:
    """How many keys the topics of a producer cache together: memory beside `buffer_memory`."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class PartitionQueue:
    """The batches of one partition."""

    __slots__ = (
        "batches",
        "in_flight",
        "is_gone",
        "leader_epoch",
        "leader_id",
        "open_batch",
        "partition",
        "sequences",
        "topic",
    )

    def __init__(
        self, topic: TopicQueues, partition: int, sequences: PartitionSequences | None
    ) -> None:
        self.topic = topic
        self.partition = partition
        # Whether the topic has no such partition any more.
        self.is_gone = False
        self.leader_id = -1
        self.leader_epoch = -1
        self.open_batch: ProducerBatch | None = None
        self.batches: deque[ProducerBatch] = deque()
        # In the order of sending.
        self.in_flight: list[ProducerBatch] = []
        # None without idempotence.
        self.sequences = sequences

    @property
    def next_batch(self) -> ProducerBatch:
        """The batch to send next: the first, but one with a number before those that lost theirs.

        Batches in front of it are renumbered when nothing is outstanding any more.
        """
        first, sequences = self.batches[0], self.sequences
        if first.sequence >= 0 or sequences is None or not sequences.is_blocked:
            return first
        if not sequences.outstanding:
            return first
        return next((batch for batch in self.batches if batch.sequence >= 0), first)

    def take(self, batch: ProducerBatch) -> None:
        """Take out the batch that is sent now."""
        if self.batches[0] is batch:
            self.batches.popleft()
        else:
            self.batches.remove(batch)

    def reenqueue(self, batch: ProducerBatch) -> None:
        """Return a batch to its place in the order."""
        batches = self.batches
        position = 0
        for position, other in enumerate(batches):
            if other.order > batch.order:
                batches.insert(position, batch)
                return
        batches.append(batch)


def _queue_length(queue: PartitionQueue) -> int:
    return len(queue.batches) + len(queue.in_flight)


class TopicQueues:
    """The queues of a topic, and the partition of records without a key."""

    def __init__(
        self,
        metadata: TopicMetadata,
        randomness: random.Random,
        kept_keys: KeptKeys,
        sequences: Sequences | None,
    ) -> None:
        """`metadata` has partitions, at least one; `sequences` is None without idempotence."""
        self.name = metadata.name
        self.topic_id = metadata.topic_id
        self.sequences = sequences
        # When the last batch was created.
        self.used_at_ms = 0
        self.queues = [PartitionQueue(self, 0, self._sequences_of(0))]
        self.available: list[PartitionQueue] = []
        self.available_partitions: list[int] = []
        self.sticky = self.queues[0]
        self.by_key: dict[bytes, PartitionQueue] = {}
        self._kept_keys = kept_keys
        # An estimate from the batches of this topic.
        self.compression_ratio = 1.0
        self._sticky_bytes = 0
        self._sticky_batch: ProducerBatch | None = None
        self._random = randomness
        self.update(metadata)
        self.choose_sticky()

    def update(self, metadata: TopicMetadata) -> None:
        """Take over partitions and leaders."""
        if not metadata.partitions:
            return
        count = max(metadata.partitions) + 1
        former_id, self.topic_id = self.topic_id, metadata.topic_id
        is_recreated = former_id != self.topic_id and ZERO_UUID not in (former_id, self.topic_id)
        if is_recreated:
            for queue in self.queues:
                if queue.sequences is not None:
                    queue.sequences.log_may_be_new()
            while len(self.queues) > count:
                gone = self.queues.pop()
                gone.is_gone = True
                gone.leader_id = -1
        if is_recreated or count != len(self.queues):
            self.forget_keys()
        for partition in range(len(self.queues), count):
            self.queues.append(PartitionQueue(self, partition, self._sequences_of(partition)))
        for queue in self.queues:
            known = metadata.partitions.get(queue.partition)
            queue.leader_id = -1 if known is None else known.leader_id
            queue.leader_epoch = -1 if known is None else known.leader_epoch
        self.available = [queue for queue in self.queues if queue.leader_id >= 0]
        self.available_partitions = [queue.partition for queue in self.available]
        if self.sticky.is_gone or (self.available and self.sticky.leader_id < 0):
            self.choose_sticky()

    def _sequences_of(self, partition: int) -> PartitionSequences | None:
        if self.sequences is None:
            return None
        return self.sequences.setdefault(partition, PartitionSequences())

    @property
    def is_empty(self) -> bool:
        """Whether no batch waits or is in flight."""
        return not any(queue.batches or queue.in_flight for queue in self.queues)

    def choose_sticky(self) -> PartitionQueue:
        """Fill another partition's batch from now on."""
        candidates = self.available or self.queues
        self._sticky_bytes = 0
        self._sticky_batch = None
        self.sticky = choose_sticky(self._random, candidates, _queue_length)
        return self.sticky

    def sticky_for_new_batch(self, batch_bytes: int) -> PartitionQueue:
        """The partition of the next batch without keys: another once one is filled (KIP-794)."""
        # A batch that is still open did not have room for the record at hand.
        if self._sticky_batch is not None or self._sticky_bytes >= batch_bytes:
            return self.choose_sticky()
        return self.sticky

    def sticky_batch_begins(self, batch: ProducerBatch) -> None:
        """Count this batch for `sticky_for_new_batch`."""
        self._sticky_batch = batch

    def batch_ends(self, batch: ProducerBatch) -> None:
        """The batch is closed: nothing is added to it any more."""
        if self._sticky_batch is batch:
            self._sticky_batch = None
            self._sticky_bytes += batch.reserved_bytes - batch.room_bytes

    def queue_of_key(self, key: bytes) -> PartitionQueue:
        """The queue by the hash of the key, cached for short keys."""
        queue = self.queues[partition_of_key(key, len(self.queues))]
        if len(key) <= _KEPT_KEY_BYTES_MAX:
            kept = self._kept_keys
            if kept.count >= _KEPT_KEYS:
                self.forget_keys()
            if kept.count < _KEPT_KEYS:
                self.by_key[key] = queue
                kept.count += 1
        return queue

    def forget_keys(self) -> None:
        """Drop the cached partitions of keys."""
        self._kept_keys.count -= len(self.by_key)
        self.by_key.clear()

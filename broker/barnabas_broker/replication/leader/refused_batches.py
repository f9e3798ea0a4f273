"""Batches of idempotent producers that were refused before a log could see them.

A producer has several requests under way. If its first batch for a partition comes a moment before
this broker knows that it leads, and the second one a moment after, the second would be accepted: in
a log that does not know the producer any sequence may be the first one, as its state may have
expired. The first could then never be appended, a gap that no client can mend. So a batch that
follows a refused one is refused, too, as it is where the producer is known (45); the client repeats
both in order.

Invariant: bounded; what is forgotten is only judged as if it had never been refused.
Source: KIP-98 and KIP-360; beyond Apache Kafka, which has the gap.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.env.disk import Buffer
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError, ParseError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import BatchHeader, read_header

REFUSED_MAX: Final = 1_000
"""Producers and partitions that are remembered; the oldest are forgotten first."""

_Topic = str | bytes  # a name, or an id where that is all the producer sent
_Key = tuple[_Topic, int, int]  # topic, partition, producer id


class RefusedBatches:
    """The first sequence that was refused, of each producer and partition."""

    def __init__(self) -> None:
        # Producer epoch and first sequence.
        self.by_producer: dict[_Key, tuple[int, int]] = {}

    def note(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        records: Buffer | None,
        partition: Partition | None,
    ) -> None:
        """Remember a batch that was refused and that the producer may repeat.

        Not where the replica here knows the producer: its log sees a gap by itself, and every
        failover would leave something behind that each later batch is compared with.
        """
        header = _idempotent_header(records)
        if header is None or (partition is not None and _knows(partition, header.producer_id)):
            return
        topic: _Topic = topic_partition.topic or topic_id
        key = (topic, topic_partition.partition, header.producer_id)
        known = self.by_producer.get(key)
        if known is not None and known[0] == header.producer_epoch:
            return  # what followed it
        while len(self.by_producer) >= REFUSED_MAX:
            del self.by_producer[next(iter(self.by_producer))]
        self.by_producer[key] = (header.producer_epoch, header.base_sequence)

    def check(self, partition: Partition, records: Buffer) -> None:
        """Let a batch pass unless it comes after a refused one that is still missing.

        Raises: KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER (45).
        """
        header = _idempotent_header(records)
        if header is None:
            return
        index, producer_id = partition.topic_partition.partition, header.producer_id
        topics: tuple[_Topic, ...] = (partition.topic_partition.topic, partition.topic_id)
        for topic in topics:
            key = (topic, index, producer_id)
            refused = self.by_producer.get(key)
            if refused is None:
                continue
            producer_epoch, first_sequence = refused
            if (
                not _knows(partition, producer_id)
                and header.producer_epoch == producer_epoch
                and header.base_sequence > first_sequence
            ):
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer_id} sent sequence {header.base_sequence}, but"
                    f" {first_sequence} was refused before and has not come again",
                )
            del self.by_producer[key]


def _knows(partition: Partition, producer_id: int) -> bool:
    return producer_id in partition.log.producer_state.producers


def _idempotent_header(records: Buffer | None) -> BatchHeader | None:
    """The header of a batch with a producer id; None for others, also for what is no batch."""
    try:
        header = read_header(records) if records is not None else None
    except ParseError:
        return None
    return header if header is not None and header.producer_id >= 0 else None

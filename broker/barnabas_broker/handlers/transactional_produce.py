"""Whether the batches of a Produce request may be appended in its transaction (TXL-9 to TXL-11).

Not here: the questions to the coordinator and their guards (`coordinator/transaction`).
"""

from __future__ import annotations

from barnabas_broker.coordinator.transaction.shard import Producer
from barnabas_broker.coordinator.transaction.verification import (
    Guard,
    Kind,
    Question,
    TransactionVerification,
)
from barnabas_broker.handlers.services import Services
from barnabas_broker.replication.leader.delayed_produce import TopicRecords
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.batch import is_transactional, read_header

ABORTABLE_SINCE = 11
ADDS_SINCE = 12


class VerifiedTransaction:
    """The open transaction of one producer, as one request needs it."""

    def __init__(
        self, verification: TransactionVerification, producer: Producer, *, adds: bool
    ) -> None:
        self._verification = verification
        self._producer = producer
        self._adds = adds
        self._asked: dict[TopicPartition, Question] = {}
        self._outcome: dict[TopicPartition, Guard | ErrorCode] = {}

    async def verify(
        self,
        transactional_id: str,
        sequences: dict[Partition, int],
        *,
        knows_abortable: bool,
    ) -> None:
        """Ask the coordinator about the partitions in which the transaction is not open yet."""
        self._asked = {
            partition.topic_partition: Question(
                partition.topic_partition, partition.leader_epoch, first
            )
            for partition, first in sequences.items()
        }
        questions = [
            self._asked[partition.topic_partition]
            for partition in sequences
            if not self._is_open(partition)
        ]
        if questions:
            kind = Kind(adds=self._adds, knows_abortable=knows_abortable)
            self._outcome = await self._verification.ask(
                transactional_id, self._producer, questions, kind
            )

    def check(self, partition: Partition) -> None:
        """Verify that the partition is in the transaction.

        What was known under another leadership says nothing: the producer sends it again.
        Raises: KafkaError 6, 45, 48 and what the coordinator said.
        """
        question = self._asked.get(partition.topic_partition)
        if question is None or question.leader_epoch != partition.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._is_open(partition):
            return
        outcome = self._outcome.get(partition.topic_partition, ErrorCode.INVALID_TXN_STATE)
        if isinstance(outcome, ErrorCode):
            raise KafkaError(outcome)
        self._verification.check(question, self._producer, outcome)
        first = question.first_sequence
        known = partition.log.producer_state.producers.get(self._producer.producer_id)
        if self._adds and known is None and first != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"the first batch of a producer begins with sequence 0, not {first}",
            )

    def appended(self, partition: Partition) -> None:
        """Take the guard away: the transaction is open here from now on."""
        self._verification.appended(partition.topic_partition, self._producer.producer_id)

    def _is_open(self, partition: Partition) -> bool:
        return partition.log.producer_state.is_in_transaction(*self._producer)


async def verified(
    services: Services, transactional_id: str, entries: TopicRecords, version: int
) -> VerifiedTransaction | None:
    """Return what the batches of a request are appended by; None if none is transactional.

    Raises: KafkaError 49 for batches of several producers.
    """
    producer: Producer | None = None
    sequences: dict[Partition, int] = {}
    for topic_partition, _, records in entries:
        if records is None or not is_transactional(records):
            continue
        header = read_header(records)
        if producer is None:
            producer = Producer(header.producer_id, header.producer_epoch)
        elif producer.producer_id != header.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        partition = services.replicas.partitions.get(topic_partition)
        # Nobody may write to an internal topic, so no transaction is to have it either.
        if partition is not None and partition.is_leader and not partition.is_internal:
            sequences[partition] = header.base_sequence
    if producer is None:
        return None
    transaction = VerifiedTransaction(services.verification, producer, adds=version >= ADDS_SINCE)
    await transaction.verify(
        transactional_id, sequences, knows_abortable=version >= ABORTABLE_SINCE
    )
    return transaction

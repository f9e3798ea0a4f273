"""Values of `admin.transactions`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from barnabas_protocol.ids import TopicPartition


class TransactionState(StrEnum):
    """What a transactional id is doing; the texts are the wire's."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id that a coordinator knows."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id; the start is None while no transaction is open."""

    transactional_id: str
    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer that a partition knows; None where a field has no value.

    `transaction_start_offset` is that of the open transaction.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction that is open on a partition and that its coordinator has forgotten.

    `start_offset`: nobody who reads committed records gets beyond it. `last_timestamp_ms`: of the
    newest record; None where it is not known.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None = None
    last_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedProducer:
    """What a transactional id has now: whoever used it before is fenced."""

    producer_id: int
    producer_epoch: int

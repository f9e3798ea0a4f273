"""What becomes of a batch after its request: acknowledged, again, in parts, or failed. Pure.

    acknowledged, duplicate      done
    too large, several records   two halves in its place
    order or identity lost       again, with new numbers where that is safe (`idempotence.py`);
                                 in a transaction: failed, and the transaction must be aborted
    retriable, time is left      again after a backoff; at once if the broker named the new leader
    anything else                failed; in a transaction it must be aborted

Source: the client columns of Kafka's error table; KIP-951 (leader hints); PRD-8.

Invariants: every batch that left the wire is put back, split or done, whichever way it went; the
answer to a batch whose time was over changes only its partition's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas_client.errors import (
    AbortableError,
    BarnabasError,
    RetriableError,
    TimedOutError,
    error_for,
)
from barnabas_client.producer.accumulator import Accumulator
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.idempotence import ProducerIdentity
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.errors import ErrorCode

_LOST_ORDER: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class Outcomes:
    """Applies answers to the accumulator."""

    def __init__(
        self,
        accumulator: Accumulator,
        *,
        retries: int,
        delivery_timeout_ms: int,
        backoff_ms: Callable[[int], int],
        on_transaction_error: Callable[[BarnabasError], None] | None,
    ) -> None:
        self._accumulator = accumulator
        self._retries = retries
        self._delivery_timeout_ms = delivery_timeout_ms
        self._backoff_ms = backoff_ms
        # Given only in a transactional producer.
        self._on_transaction_error = on_transaction_error

    def acknowledge(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, append_time_ms: int
    ) -> None:
        """The records are in the log from `base_offset` on, -1 where that is not known."""
        self._accumulator.answered(queue, batch)
        if queue.sequences is not None:
            queue.sequences.succeeded(batch)
        if not batch.is_done:
            batch.finish(base_offset, append_time_ms)
        self._accumulator.release(batch)

    def refuse(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        message: str | None,
        now_ms: int,
        *,
        knows_leader: bool,
    ) -> None:
        """The broker answered with an error code."""
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.acknowledge(queue, batch, -1, -1)
            return
        self._accumulator.answered(queue, batch)
        if batch.is_done:
            self._accumulator.release(batch)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._accumulator.split(queue, batch)
        elif code in _LOST_ORDER and queue.sequences is not None:
            self._order_lost(queue, batch, code, now_ms)
        elif code == ErrorCode.INVALID_PRODUCER_EPOCH and self._renew_identity(queue, batch):
            self._accumulator.put_back(queue, batch, now_ms)
        else:
            text = f"{batch.topic}-{batch.partition}: {message or 'the broker refused the records'}"
            error = error_for(code, text)
            self._repeat_or_fail(queue, batch, error, now_ms, 0 if knows_leader else None)

    def lose(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BarnabasError, now_ms: int
    ) -> None:
        """No answer came: the records may be in the log or not."""
        self._accumulator.answered(queue, batch)
        if batch.is_done:
            self._accumulator.release(batch)
        else:
            self._repeat_or_fail(queue, batch, error, now_ms, None, is_certain=False)

    def expire(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The time of the batch is over, whether it waits or is on the wire."""
        error = TimedOutError(
            f"{batch.topic}-{batch.partition}: not acknowledged within "
            f"delivery_timeout_ms={self._delivery_timeout_ms}: look whether the partition has a "
            f"leader that this client reaches ({batch.attempts} attempts)"
        )
        self.abandon(queue, batch, error)

    def abandon(self, queue: PartitionQueue, batch: ProducerBatch, error: BarnabasError) -> None:
        """Fail a batch that waits or is on the wire."""
        # Who aborts knows that the records are given up.
        batch.was_seen = isinstance(error, AbortableError)
        is_on_wire = batch in queue.in_flight
        if not is_on_wire:
            self._accumulator.remove(queue, batch)
        self._fail(queue, batch, error, is_certain=batch.attempts == 0, is_on_wire=is_on_wire)

    def _order_lost(
        self, queue: PartitionQueue, batch: ProducerBatch, code: int, now_ms: int
    ) -> None:
        sequences = queue.sequences
        assert sequences is not None
        if not sequences.is_first(batch):
            # Something before it is still to be sent again; then this one fits.
            self._accumulator.put_back(queue, batch, now_ms)
        elif self._on_transaction_error is not None:
            text = f"{batch.topic}-{batch.partition}: the broker misses records of the transaction"
            self._fail(queue, batch, error_for(code, text), is_certain=True)
        else:
            sequences.cut_before(batch)
            self._accumulator.put_back(queue, batch, now_ms)

    def _renew_identity(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Outside of transactions another producer id does as well."""
        identities = self._accumulator.identities
        if queue.sequences is None or identities is None or self._on_transaction_error is not None:
            return False
        identities.reset(ProducerIdentity(batch.producer_id, batch.producer_epoch))
        queue.sequences.cut_before(batch)
        return True

    def _repeat_or_fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BarnabasError,
        now_ms: int,
        backoff_ms: int | None,
        *,
        is_certain: bool = True,
    ) -> None:
        is_in_time = now_ms < batch.created_ms + self._delivery_timeout_ms
        if isinstance(error, RetriableError) and batch.attempts <= self._retries and is_in_time:
            if backoff_ms is None:
                backoff_ms = self._backoff_ms(batch.attempts)
            self._accumulator.put_back(queue, batch, now_ms + backoff_ms)
        else:
            # What the broker refuses for good is not in the log; a retriable code may leave doubt.
            is_certain = is_certain and not isinstance(error, RetriableError)
            self._fail(queue, batch, error, is_certain=is_certain)

    def _fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BarnabasError,
        *,
        is_certain: bool,
        is_on_wire: bool = False,
    ) -> None:
        if queue.sequences is not None and batch.sequence >= 0:
            queue.sequences.failed(batch, is_certain=is_certain)
        if self._on_transaction_error is not None:
            self._on_transaction_error(error)
        batch.fail(error)
        if not is_on_wire:
            self._accumulator.release(batch)

"""Completes, retries, splits or fails a batch by the response to its request. Pure.

    acknowledged, duplicate      done
    too large, several records   two halves in its place, unless it is in doubt
    order or identity lost       retried with new sequences, unless in doubt (`idempotence.py`);
                                 in a transaction: failed, and the transaction must be aborted
    retriable, time is left      retried after a backoff; at once if the broker named the new leader
    anything else                failed; in a transaction it must be aborted

Source: the client columns of Kafka's error table; KIP-951 (leader hints); PRD-8.

A batch is in doubt once an attempt may have written it: no response came, or an error code that a
leader also sends after it has appended, or one that says nothing. An error of a later attempt says
nothing about the earlier one, so a batch in doubt is never split or renumbered, and if it fails its
error says `is_in_doubt`.

Invariants: every batch that left the wire is reenqueued, split or done; the response to a batch
that has expired changes only its partition's sequences.
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
from barnabas_client.producer.accumulator import RecordAccumulator
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.idempotence import ProducerIdentity
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.errors import ErrorCode

# Retriable codes that a leader sends before it appends anything. All others may come after it: a
# leader that steps down while it waits for its followers sends NOT_LEADER_OR_FOLLOWER, too.
_NOT_APPENDED: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
_LOST_ORDER: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class BatchCompletion:
    """Applies the results of Produce requests to the accumulator."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        *,
        retries: int,
        delivery_timeout_ms: int,
        backoff_ms: Callable[[int], int],
        on_transaction_error: Callable[[BarnabasError], None] | None,
    ) -> None:
        self._accumulator = accumulator
        self._retries = retries
        self.delivery_timeout_ms = delivery_timeout_ms
        self._backoff_ms = backoff_ms
        # Given only in a transactional producer.
        self._on_transaction_error = on_transaction_error

    def complete(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, append_time_ms: int
    ) -> None:
        """The records are in the log from `base_offset` on, -1 where that is not known."""
        self._accumulator.on_response(queue, batch)
        if batch.sequences is not None:
            batch.sequences.on_success(batch)
        if not batch.is_done:
            batch.finish(base_offset, append_time_ms)
        self._accumulator.deallocate(batch)

    def handle_error(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        code: int,
        message: str | None,
        now_ms: int,
        *,
        knows_leader: bool,
    ) -> None:
        """The broker returned an error code for the batch."""
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            if batch.is_in_doubt:
                self.complete(queue, batch, -1, -1)
                return
            # Not its own duplicate: the log was created again, and took a later sequence first.
            code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._accumulator.on_response(queue, batch)
        if batch.is_done:
            self._accumulator.deallocate(batch)
        elif (
            code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and not batch.is_in_doubt
        ):
            self._accumulator.split(queue, batch)
        elif code in _LOST_ORDER and batch.sequences is not None:
            self._on_lost_order(queue, batch, code, now_ms)
        elif code == ErrorCode.INVALID_PRODUCER_EPOCH and self._renew_identity(batch):
            self._accumulator.reenqueue(queue, batch, now_ms)
        else:
            text = f"{batch.topic}-{batch.partition}: {message or 'the broker refused the records'}"
            error = error_for(code, text)
            if _may_be_appended(error, code):
                batch.is_in_doubt = True
            self._retry_or_fail(queue, batch, error, now_ms, 0 if knows_leader else None)

    def handle_no_response(
        self, queue: PartitionQueue, batch: ProducerBatch, error: BarnabasError, now_ms: int
    ) -> None:
        """No response came: the records may be in the log or not."""
        self._accumulator.on_response(queue, batch)
        if batch.is_done:
            self._accumulator.deallocate(batch)
        else:
            batch.is_in_doubt = True
            self._retry_or_fail(queue, batch, error, now_ms, None)

    def expire(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """`delivery_timeout_ms` is over, whether the batch waits or is in flight."""
        error = TimedOutError(
            f"{batch.topic}-{batch.partition}: not acknowledged within "
            f"delivery_timeout_ms={self.delivery_timeout_ms}: look whether the partition has a "
            f"leader that this client reaches ({batch.attempts} attempts)"
        )
        self.abort(queue, batch, error)

    def abort(self, queue: PartitionQueue, batch: ProducerBatch, error: BarnabasError) -> None:
        """Fail a batch that waits or is in flight."""
        # Whoever aborts the transaction knows that the records are not sent.
        batch.was_seen = isinstance(error, AbortableError)
        is_on_wire = batch in queue.in_flight
        if is_on_wire:
            batch.is_in_doubt = True
        else:
            self._accumulator.remove(queue, batch)
        self._fail(batch, error, is_on_wire=is_on_wire)

    def _on_lost_order(
        self, queue: PartitionQueue, batch: ProducerBatch, code: int, now_ms: int
    ) -> None:
        sequences = batch.sequences
        assert sequences is not None
        if not sequences.is_first(batch):
            # An earlier batch is still to be retried; then this one fits.
            self._accumulator.reenqueue(queue, batch, now_ms)
        elif self._on_transaction_error is not None:
            text = f"{batch.topic}-{batch.partition}: the broker misses records of the transaction"
            self._fail(batch, error_for(code, text))
        elif self._has_fixed_identity:
            text = f"{batch.topic}-{batch.partition}: the broker misses what this producer wrote"
            self._fail(batch, error_for(code, text))
        elif batch.is_in_doubt:
            text = f"{batch.topic}-{batch.partition}: the broker misses what came before"
            self._fail(batch, error_for(code, text))
        else:
            sequences.cut_before(batch)
            self._accumulator.reenqueue(queue, batch, now_ms)

    def _renew_identity(self, batch: ProducerBatch) -> bool:
        """Get another producer id, outside of transactions; return whether the batch may use it."""
        identities = self._accumulator.identities
        if batch.sequences is None or identities is None or identities.is_fixed:
            return False
        identities.reset(ProducerIdentity(batch.producer_id, batch.producer_epoch))
        batch.sequences.cut_before(batch)
        return not batch.is_in_doubt

    @property
    def _has_fixed_identity(self) -> bool:
        identities = self._accumulator.identities
        return identities is not None and identities.is_fixed

    def _retry_or_fail(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: BarnabasError,
        now_ms: int,
        backoff_ms: int | None,
    ) -> None:
        is_in_time = now_ms < batch.created_ms + self.delivery_timeout_ms
        if isinstance(error, RetriableError) and batch.attempts <= self._retries and is_in_time:
            if backoff_ms is None:
                backoff_ms = self._backoff_ms(batch.attempts)
            self._accumulator.reenqueue(queue, batch, now_ms + backoff_ms)
        else:
            self._fail(batch, error)

    def _fail(
        self, batch: ProducerBatch, error: BarnabasError, *, is_on_wire: bool = False
    ) -> None:
        if batch.sequences is not None:
            batch.sequences.on_failure(batch, is_certain=not batch.is_in_doubt)
        if self._on_transaction_error is not None:
            self._on_transaction_error(error)
        batch.fail(error.in_doubt() if batch.is_in_doubt else error)
        if not is_on_wire:
            self._accumulator.deallocate(batch)


def _may_be_appended(error: BarnabasError, code: int) -> bool:
    """Whether a leader that sends the error may have appended the batch.

    A broker that has failed on its way does not say where, nor does a code that is not known here.
    """
    if error.code in (ErrorCode.UNKNOWN_SERVER_ERROR, None):
        return True
    return isinstance(error, RetriableError) and code not in _NOT_APPENDED

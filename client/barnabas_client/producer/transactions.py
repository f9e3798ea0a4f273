"""The state machine of a transactional producer. Which calls are legal, and why others are not.

Pure. The legal moves:

    UNINITIALIZED -> INITIALIZING -> READY -> OPEN -> COMMITTING -> READY
                                              OPEN, COMMITTING -> FAILED -> ABORTING -> READY
                                              OPEN, COMMITTING (before EndTxn) -> ABORTING
    INITIALIZING -> UNINITIALIZED (no response in time)      any -> BROKEN (close the producer)

The application recovers from FAILED by aborting, and never from BROKEN: fenced by a newer producer
of the same transactional id, or refused by the coordinator.

Two protocols, chosen by the brokers' feature `transaction.version`:
    1   AddPartitionsToTxn before the first record of a partition, AddOffsetsToTxn before offsets;
        the producer epoch stays, and is raised by InitProducerId after a failure (KIP-98, KIP-360)
    2   Produce and TxnOffsetCommit add partitions themselves; EndTxn bumps the epoch (KIP-890)

Not here: requests (`transaction_manager.py`).

Invariants: records are sent only in OPEN and COMMITTING; with version 1 only to partitions that
the coordinator knows; one epoch never spans a failed and another transaction.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from barnabas_client.errors import (
    AbortableError,
    AuthenticationError,
    BarnabasError,
    ClientBrokenError,
    ClosedError,
    FencedError,
    IllegalStateError,
    UnsupportedError,
)
from barnabas_client.producer.queues import PartitionQueue
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition


class TransactionStatus(Enum):
    """Where a transactional producer stands."""

    UNINITIALIZED = "init_transactions() has not been called"
    INITIALIZING = "init_transactions() is under way"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    FAILED = "the transaction has failed and must be aborted"
    ABORTING = "the transaction is being aborted"
    BROKEN = "the producer has failed: close it"


_S = TransactionStatus
_MOVES: Final[dict[TransactionStatus, frozenset[TransactionStatus]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.BROKEN}),
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.BROKEN}),
    _S.READY: frozenset({_S.OPEN, _S.BROKEN}),
    _S.OPEN: frozenset({_S.COMMITTING, _S.FAILED, _S.ABORTING, _S.BROKEN}),
    # Repeated by the application when no response came in time.
    _S.COMMITTING: frozenset({_S.COMMITTING, _S.READY, _S.FAILED, _S.BROKEN}),
    _S.FAILED: frozenset({_S.ABORTING, _S.BROKEN}),
    _S.ABORTING: frozenset({_S.ABORTING, _S.READY, _S.BROKEN}),
    _S.BROKEN: frozenset(),
}
# Errors that no abort recovers from.
_BREAKING: Final = (FencedError, ClientBrokenError, AuthenticationError, UnsupportedError)


class ProducerTransaction:
    """One transactional producer's state."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.status = TransactionStatus.UNINITIALIZED
        self.error: BarnabasError | None = None
        self.is_version_2 = False
        # Whether the coordinator may know of this transaction, so that it has to be ended.
        self.is_begun_at_broker = False
        # Whether the coordinator has added something to the transaction.
        self.is_known_at_broker = False
        # Whether EndTxn may have been sent: then only the same end can be repeated.
        self.is_end_sent = False
        # Whether EndTxn was carried out: it must not be sent again under the next epoch.
        self.has_ended_at_broker = False
        # Whether sequences of this epoch may be lost, so that the next transaction needs another.
        self.needs_new_epoch = False
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}

    def move(self, status: TransactionStatus) -> None:
        """Change the status.

        Raises: the error of the producer or the transaction, if that is why the move is not
        legal; else IllegalStateError.
        """
        if status in _MOVES[self.status] or (
            status is TransactionStatus.ABORTING and self.is_undecided
        ):
            self.status = status
            return
        self.raise_failure()
        raise IllegalStateError(f"not possible now: {self.status.value}")

    @property
    def is_undecided(self) -> bool:
        """Whether a commit was begun and cancelled before EndTxn was sent."""
        return self.status is TransactionStatus.COMMITTING and not self.is_end_sent

    def raise_failure(self) -> None:
        """Raise the error of the producer or the transaction, if there is one."""
        if self.error is None:
            return
        if self.status is TransactionStatus.BROKEN:
            raise self.error.with_traceback(None)
        raise AbortableError(
            f"the transaction has failed, abort it: {self.error}", self.error.code
        ) from self.error

    def check_can_send(self) -> None:
        """Raise unless a transaction is open and has not failed.

        Raises: IllegalStateError, AbortableError, FencedError.
        """
        if self.status is not TransactionStatus.OPEN:
            self.raise_failure()
            raise IllegalStateError(
                f"records of a transactional producer belong in a transaction: {self.status.value}"
            )

    def begin(self) -> None:
        """Open a transaction."""
        self.move(TransactionStatus.OPEN)
        self._clear()

    def end(self) -> None:
        """The transaction is committed or aborted."""
        self.move(TransactionStatus.READY)
        self._clear()

    def _clear(self) -> None:
        self.error = None
        self.is_begun_at_broker = False
        self.is_known_at_broker = False
        self.is_end_sent = False
        self.has_ended_at_broker = False
        self.needs_new_epoch = False
        self._added.clear()
        self._wanted.clear()

    def record_failed(self, error: BarnabasError) -> None:
        """A batch failed: the transaction can only be aborted."""
        self.needs_new_epoch = True
        if isinstance(error, ClosedError):
            return
        if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
            # Fenced, or only aborted by its timeout: the response to an abort will say which.
            error = AbortableError(error.message, error.code)
        self.fail(error)

    def fail(self, error: BarnabasError) -> None:
        """The transaction has failed, or the producer is broken, by this error."""
        status = self.status
        if status is TransactionStatus.BROKEN:
            return
        if isinstance(error, _BREAKING):
            self.error = error
            self.status = TransactionStatus.BROKEN
        elif status in (TransactionStatus.OPEN, TransactionStatus.COMMITTING):
            self.error = error
            self.status = TransactionStatus.FAILED

    def break_down(self, error: BarnabasError) -> None:
        """The coordinator refuses this producer: it is broken."""
        self.error = error
        self.status = TransactionStatus.BROKEN

    @property
    def is_sending(self) -> bool:
        """Whether records may be sent."""
        return self.status in (TransactionStatus.OPEN, TransactionStatus.COMMITTING)

    @property
    def abort_reason(self) -> BarnabasError | None:
        """Why waiting batches must not be sent any more; None if they may."""
        if self.status in (TransactionStatus.FAILED, TransactionStatus.BROKEN):
            assert self.error is not None
            return self.error
        if self.status is TransactionStatus.ABORTING:
            return AbortableError("the transaction of this record was aborted")
        return None

    @property
    def wanted(self) -> list[TopicPartition]:
        """Partitions to add to the transaction."""
        return list(self._wanted)

    def sendable(self, queues: list[PartitionQueue]) -> list[PartitionQueue]:
        """The queues that may be sent from now; the partitions of the others become `wanted`."""
        if not self.is_sending:
            return []
        if self.is_version_2:
            self.is_begun_at_broker = self.is_begun_at_broker or bool(queues)
            return queues
        admitted: list[PartitionQueue] = []
        for queue in queues:
            partition = TopicPartition(queue.topic.name, queue.partition)
            if partition in self._added:
                admitted.append(queue)
            else:
                self._wanted[partition] = None
        return admitted

    def partitions_added(self, partitions: list[TopicPartition]) -> None:
        """The coordinator has added these partitions."""
        self.is_known_at_broker = True
        for partition in partitions:
            self._added.add(partition)
            self._wanted.pop(partition, None)

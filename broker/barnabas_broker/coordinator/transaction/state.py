"""The state of one transactional id, as a value, and the moves between states.

Pure: no clock, no records, no requests. Source: TXN-1, TXN-7, TXN-13; KIP-98, KIP-360, KIP-890.

    Empty, CompleteCommit, CompleteAbort  --add-->     Ongoing
    Ongoing                               --end-->     PrepareCommit | PrepareAbort
    PrepareX                              --markers--> CompleteX
    Empty, CompleteX                      --init-->    Empty
    Empty, CompleteX                      --abort of nothing, version 2--> PrepareAbort

The record of PrepareX is the commit point: from then on only the markers are missing.

Invariants: the producer epoch of a producer id never goes back; a version 2 transaction ends with
an epoch above the one it wrote with, so that what its producer sent before cannot get into the
next one; a producer id never gets to the end of its epochs while its producer may write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from barnabas_protocol.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIME: Final = -1
PRODUCER_EPOCH_MAX: Final = 32767
CLASSIC: Final = 0
"""The client version of a transaction whose producer adds partitions by itself."""
EPOCH_BUMP: Final = 2
"""The client version from which on every end of a transaction raises the producer epoch."""


class TransactionState(Enum):
    """What is stored of a transactional id, by the number in the record."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def kafka_name(self) -> str:
        """The name that Kafka's tools show, as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and markers are still to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_settled(self) -> bool:
        """Whether no transaction is open or being ended."""
        return self is not TransactionState.ONGOING and not self.is_prepared


_SETTLED: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)
_PREDECESSORS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _SETTLED,
    TransactionState.ONGOING: _SETTLED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    TransactionState.PREPARE_ABORT: _SETTLED | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What the coordinator knows of one transactional id.

    `last_producer_epoch` is the epoch before the last change of it, to know a repeated request by;
    it is not stored. `next_producer_id` is set while a producer id that has run out of epochs
    waits for its last markers. Times are wall time in milliseconds.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIME
    updated_ms: int = NO_TIME
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    client_version: int = CLASSIC

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for another producer."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def deadline_ms(self) -> int:
        """When an open transaction is aborted, if its producer does not end it before."""
        return self.started_ms + self.timeout_ms

    def _moved(self, state: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        assert self.state in _PREDECESSORS[state], (self.state, state)
        return replace(self, state=state, updated_ms=now_ms, **changes)

    # ---- a producer begins ---------------------------------------------------------------------

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int, now_ms: int) -> Transaction:
        """Give the next producer its epoch; the last one is fenced by it.

        `expected_epoch` is what the producer has, -1 if it says nothing: then nobody can tell a
        repeated request from the next one.
        """
        return self._moved(
            TransactionState.EMPTY,
            now_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=(
                NO_PRODUCER_EPOCH if expected_epoch == NO_PRODUCER_EPOCH else self.producer_epoch
            ),
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
        )

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, expected_epoch: int, now_ms: int
    ) -> Transaction:
        """Begin anew with a fresh producer id, whose epochs start at 0."""
        return self._moved(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=0,
            last_producer_epoch=(
                NO_PRODUCER_EPOCH if expected_epoch == NO_PRODUCER_EPOCH else self.producer_epoch
            ),
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIME,
        )

    # ---- it writes -----------------------------------------------------------------------------

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        """Add partitions, and begin the transaction if it has not begun."""
        is_open = self.state is TransactionState.ONGOING
        return self._moved(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | partitions if is_open else partitions,
            started_ms=self.started_ms if is_open else now_ms,
            client_version=client_version,
        )

    # ---- it ends -------------------------------------------------------------------------------

    def ended(
        self, *, commits: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """Decide the outcome: what the markers carry is decided here too.

        `next_producer_id` is given where a version 2 end finds no epoch left: the markers get the
        last epoch of the old id, and the producer goes on with the new id at epoch 0.
        """
        bumps = client_version >= EPOCH_BUMP
        is_open = self.state is TransactionState.ONGOING
        return self._moved(
            TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            now_ms,
            producer_epoch=self.producer_epoch + 1 if bumps else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if bumps else self.last_producer_epoch,
            next_producer_id=next_producer_id,
            partitions=self.partitions if is_open else frozenset(),
            started_ms=self.started_ms if is_open else now_ms,
            client_version=client_version,
        )

    def fenced(self, *, client_version: int, now_ms: int) -> Transaction:
        """Abort what is open on the coordinator's own account: its producer may not go on (TXN-7).

        The epoch rises by one in both versions, and a producer that begins anew gets the one after
        it. In version 2 who repeats its abort is told of this one, and is fenced by that.
        """
        return self._moved(
            TransactionState.PREPARE_ABORT,
            now_ms,
            producer_epoch=min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.next_producer_id != NO_PRODUCER_ID
        return self._moved(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            partitions=frozenset(),
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id if rotates else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else self.producer_epoch,
        )

    @property
    def producer_after_end(self) -> tuple[int, int]:
        """Producer id and epoch that the producer of an ended transaction goes on with."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    # ---- repeated requests ---------------------------------------------------------------------

    def is_of(self, producer_id: int) -> bool:
        """Whether a producer id is the one in use, or the one that takes its place."""
        return producer_id != NO_PRODUCER_ID and producer_id in (
            self.producer_id,
            self.next_producer_id,
        )

    def is_repeated_end(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this is what a producer sends again that has not heard of its new epoch.

        Only an end of version 2 has given it one: the epoch below that of a version 1 transaction
        is that of a producer which was fenced.
        """
        if self.client_version < EPOCH_BUMP:
            return False
        if producer_id == self.producer_id and producer_epoch == self.producer_epoch - 1:
            return True
        return (
            producer_id == self.previous_producer_id
            and producer_epoch == PRODUCER_EPOCH_MAX - 1
            and self.producer_epoch == 0
        )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, all in order."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        topics[topic].append(index)
    return topics

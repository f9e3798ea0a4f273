"""What a partition log knows of its producers: sequences, epochs, open transactions (TXL-1 to
TXL-6).

Pure: no file, no clock. It is a function of the batches applied to it, in order; that is what makes
it equal after a restart to what it was before (TXL-8). Not here: the bytes of snapshots
(`producer_snapshot`), the index of aborted transactions (`transaction_index`), and the rules of a
batch without a producer (`validator`).

Use: a leader calls `check` (or `check_marker`) before it accepts a batch, and everybody calls
`append` (or `append_marker`) for each batch that is in the log, in offset order, leaders, followers
and recovery alike.

Source: KIP-98 (idempotence, transactions), KIP-360 (unknown producers may start anywhere).
Invariants: a producer has at most five cached batches, all of its current producer epoch; `_open`
is in rising order of first offset; the first unstable offset never falls while batches are
appended. When a producer was heard is the one thing that a restart changes: it goes by the clock
here, as records may be years old where they are copied (TXL-4).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas_broker.log.transaction_index import AbortedTransaction
from barnabas_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas_protocol.records.batch import BatchHeader

# Producers keep at most five requests in flight, so a duplicate is one of the last five batches.
CACHED_BATCH_COUNT = 5
SEQUENCE_MAX = 2**31 - 1
_HALF_A_ROUND = 2**30
NO_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_TRANSACTION = -1
_new_tuple: Final = tuple.__new__


class CachedBatch(NamedTuple):
    """One of the last batches of a producer. `offset_delta` is last minus first sequence."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record; sequences wrap from 2^31 - 1 to 0."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + SEQUENCE_MAX + 1

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta


PRODUCERS_MAX = 20_000
"""Producers that one partition remembers; each takes up to 800 bytes."""
FORGOTTEN_COUNT = 1_000
"""How many are dropped at once where there are more, so that looking for them is rare."""


class ProducerEntry:
    """The state of one producer id.

    `earlier`: the newest batch of this producer epoch that came under an earlier leader epoch than
    the newest of all. `known_from`: the sequence from which on all are in the log, up to the last:
    that of the first batch of this producer epoch, or of the first one in a snapshot. `heard_ms`:
    when it wrote last, by the wall clock; for what was found in the log the timestamp of that.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "earlier",
        "heard_ms",
        "known_from",
        "last_timestamp",
        "leader_epoch",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_EPOCH,
        *,
        batches: Iterable[CachedBatch] = (),
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        transaction_first_offset: int = NO_TRANSACTION,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches = list(batches)
        self.leader_epoch = NO_EPOCH
        self.earlier: CachedBatch | None = None
        self.known_from = self.batches[0].first_sequence if self.batches else NO_SEQUENCE
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = self.heard_ms = last_timestamp
        self.transaction_first_offset = transaction_first_offset

    @property
    def last_sequence(self) -> int:
        """The sequence of the newest record of this producer epoch, -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the newest data record of this producer epoch, -1 if none is known."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of this producer epoch is open."""
        return self.transaction_first_offset != NO_TRANSACTION

    def last_offset_below(self, end: int) -> int:
        """The same of what is below an offset; the newest where no such batch is known."""
        for batch in reversed(self.batches):
            if batch.last_offset < end:
                return batch.last_offset
        return self.last_offset

    def is_earlier(self, first_sequence: int, last_sequence: int) -> bool:
        """Whether a batch with these sequences is in the log since before the newest leader epoch.

        Sequences wrap: what is less than half a round behind is older.
        """
        return (
            self.earlier is not None
            and (self.earlier.last_sequence - last_sequence) % (SEQUENCE_MAX + 1) < _HALF_A_ROUND
            and (first_sequence - self.known_from) % (SEQUENCE_MAX + 1) < _HALF_A_ROUND
        )

    def find(self, first_sequence: int, last_sequence: int) -> CachedBatch | None:
        """Return the cached batch with exactly these sequences."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended. `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerState:
    """All producers of one partition log. `end_offset`: every batch below it is applied."""

    __slots__ = ("_heard", "_open", "_undecided", "end_offset", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        # First offset of each open transaction -> producer id; insertion order is offset order.
        self._open: dict[int, int] = {}
        # First offset -> marker offset, for ended transactions whose marker is not below the high
        # watermark.
        self._undecided: dict[int, int] = {}
        # When those were heard that a truncation has taken, until the log is replayed.
        self._heard: dict[int, int] = {}

    def check(
        self, header: BatchHeader, now_ms: int, high_watermark: int = 0
    ) -> CachedBatch | None:
        """Return the cached batch that this client batch repeats, None if it is new and may be
        appended.

        Changes nothing. Batches without a producer id are always new. `now_ms` is not used for
        sequences; it is there so that a caller has one signature for every check.
        While a former leader was frozen or cut off, a batch may have waited there for its response
        for as long as a request may take, and many have come since, under other leaders. Its place
        is not known any more, but that it is in the log is (below `high_watermark`, for good).
        Raises: KafkaError 47 (old epoch), 45 (gap), 46 (such a batch), 20 (such a batch that is not
        committed yet), 48 (plain batch inside an open transaction).
        """
        entry = self.producers.get(header.producer_id)
        if header.producer_id < 0 or entry is None:
            return None
        if (
            header.producer_epoch == entry.producer_epoch
            and header.base_sequence != entry.last_sequence + 1
        ):
            repeated = entry.find(header.base_sequence, header.last_sequence)
            if repeated is not None:
                return repeated
        self._check_epoch(entry, header.producer_epoch)
        self._check_sequence(entry, header, high_watermark)
        if entry.transaction_first_offset != NO_TRANSACTION and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {entry.producer_id} wrote outside of its open transaction",
            )
        return None

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> None:
        """Verify that a marker may be appended. Changes nothing.

        Raises: KafkaError 47 (old producer epoch), 52 (old coordinator epoch).
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        self._check_epoch(entry, header.producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is below {entry.coordinator_epoch}",
            )

    def append(
        self,
        header: BatchHeader,
        base_offset: int | None = None,
        leader_epoch: int | None = None,
        heard_ms: int = NO_TIMESTAMP,
    ) -> None:
        """Apply a data batch that is in the log. `base_offset` and `leader_epoch` replace the
        header's if it is not stamped; `heard_ms` is given where it has just come.
        """
        first_offset = header[0] if base_offset is None else base_offset
        offset_delta = header[6]
        self.end_offset = first_offset + offset_delta + 1
        if header[9] < 0:
            return
        entry, max_timestamp = self._entry_for(header), header[8]
        last_offset = first_offset + offset_delta
        batch = _new_tuple(
            CachedBatch, (header.last_sequence, last_offset, offset_delta, max_timestamp)
        )
        batches = entry.batches
        epoch = header[2] if leader_epoch is None else leader_epoch
        if epoch != entry.leader_epoch:
            entry.leader_epoch = epoch
            entry.earlier = batches[-1] if batches else None
        if not batches:
            entry.known_from = header.base_sequence
        batches.append(batch)
        if len(batches) > CACHED_BATCH_COUNT:
            del batches[0]
        entry.last_timestamp = max_timestamp
        entry.heard_ms = heard_ms if heard_ms >= 0 else max(entry.heard_ms, max_timestamp)
        if header.is_transactional and entry.transaction_first_offset == NO_TRANSACTION:
            entry.transaction_first_offset = first_offset
            self._open[first_offset] = entry.producer_id

    def append_marker(
        self,
        header: BatchHeader,
        *,
        is_abort: bool,
        coordinator_epoch: int,
        base_offset: int | None = None,
        heard_ms: int = NO_TIMESTAMP,
    ) -> CompletedTransaction | None:
        """Apply a commit or abort marker; returns the transaction it ended, None if that was empty
        (TXL-6).
        """
        offset = header.base_offset if base_offset is None else base_offset
        self.end_offset = offset + header.last_offset_delta + 1
        entry = self._entry_for(header)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.heard_ms = heard_ms if heard_ms >= 0 else max(entry.heard_ms, header.max_timestamp)
        first_offset = entry.transaction_first_offset
        if first_offset == NO_TRANSACTION:
            return None
        entry.transaction_first_offset = NO_TRANSACTION
        self._open.pop(first_offset, None)
        self._undecided[first_offset] = offset
        return CompletedTransaction(entry.producer_id, first_offset, offset, is_abort)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """Return the index entry for an aborted transaction, to be called right after its marker.

        Its last stable offset is the one that holds once this marker is visible.
        """
        first_open = next(iter(self._open), None)
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_offset + 1 if first_open is None else first_open,
        )

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the earliest transaction that is open or not yet visibly
        decided.
        """
        first_open = next(iter(self._open), None)
        if not self._undecided:
            return first_open
        first_undecided = min(self._undecided)
        return first_undecided if first_open is None else min(first_open, first_undecided)

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is now below the high watermark (TXL-5)."""
        if self._undecided:
            for first_offset, marker in tuple(self._undecided.items()):
                if marker < high_watermark:
                    del self._undecided[first_offset]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for `expiration_ms` without an open transaction; returns how many
        (TXL-4).
        """
        self._heard.clear()
        expired = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.transaction_first_offset == NO_TRANSACTION
            and now_ms - entry.heard_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open in exactly this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None and entry.is_in_transaction and entry.producer_epoch == producer_epoch
        )

    def active(self) -> Iterator[ProducerEntry]:
        """Yield every known producer."""
        return iter(self.producers.values())

    def clear(self, end_offset: int) -> None:
        """Forget everything and start at `end_offset`: the caller replays."""
        self._heard.update((one.producer_id, one.heard_ms) for one in self.producers.values())
        self.producers.clear()
        self._open.clear()
        self._undecided.clear()
        self.end_offset = end_offset

    def restore(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Become what a snapshot says; the batches from `end_offset` on are still to be applied."""
        self.clear(end_offset)
        for entry in entries:
            self._add(entry)
        self._open.update(
            sorted(
                (entry.transaction_first_offset, entry.producer_id)
                for entry in self.producers.values()
                if entry.transaction_first_offset != NO_TRANSACTION
            )
        )

    def _entry_for(self, header: BatchHeader) -> ProducerEntry:
        """Return the producer's entry, moved to the batch's producer epoch."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            if len(self.producers) >= PRODUCERS_MAX:
                self._forget_oldest()
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self._add(entry)
        elif entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
            entry.earlier = None
        return entry

    def _add(self, entry: ProducerEntry) -> None:
        entry.heard_ms = max(entry.heard_ms, self._heard.pop(entry.producer_id, NO_TIMESTAMP))
        self.producers[entry.producer_id] = entry

    def _forget_oldest(self) -> None:
        """Make room: drop the producers whose newest record is the oldest, by its offset.

        Not by its timestamp, which is the client's to choose. A producer that comes again is taken
        for a new one, as after `producer.id.expiration.ms`.
        """
        idle = [
            entry
            for entry in self.producers.values()
            if entry.transaction_first_offset == NO_TRANSACTION
        ]
        for entry in heapq.nsmallest(FORGOTTEN_COUNT, idle, key=lambda one: one.last_offset):
            del self.producers[entry.producer_id]

    @staticmethod
    def _check_epoch(entry: ProducerEntry, producer_epoch: int) -> None:
        if producer_epoch < entry.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch {producer_epoch} of producer {entry.producer_id} is below "
                f"{entry.producer_epoch}",
            )

    @staticmethod
    def _check_sequence(entry: ProducerEntry, header: BatchHeader, high_watermark: int) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.producer_epoch:
            expected = 0
        else:
            last = entry.last_sequence
            expected = 0 if last == SEQUENCE_MAX else last + 1
        if first == expected:
            return
        code, what = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"expected {expected}"
        if header.producer_epoch == entry.producer_epoch and entry.is_earlier(
            first, header.last_sequence
        ):
            code, what = ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "which it wrote to an earlier leader"
            if entry.earlier is not None and entry.earlier.last_offset >= high_watermark:
                code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        raise KafkaError(code, f"producer {entry.producer_id} sent sequence {first}, {what}")

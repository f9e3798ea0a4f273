"""Sequence numbers of idempotent producers: which batch may be sent next, and with which number.

Pure: it is called with what happened to batches.

    one identity (producer id, producer epoch) for the producer; each partition keeps the one that
    its outstanding batches were numbered with, and takes a newer one only when it has none left
    outstanding = numbered and neither acknowledged nor failed, in flight or waiting for a retry

    the first batch of a producer   is sent alone: a broker that does not know a producer id takes
    id in its partition             any number for its first, and so would not notice a gap
    a batch that is retried         is sent alone, before anything behind it in its partition
    OUT_OF_ORDER_SEQUENCE           behind an outstanding batch: retry later. Otherwise the broker
                                    lacks what came before: cut (below); a batch in doubt fails
    UNKNOWN_PRODUCER_ID             the same: the broker has dropped the partition's state
    DUPLICATE_SEQUENCE              one in doubt is in the log already: success. One that cannot be
                                    there: as OUT_OF_ORDER_SEQUENCE
    failed, certainly not written   what follows cannot be written either (a gap): cut
    failed, in doubt                numbered batches are still sent, for the log may continue behind
                                    it; new ones wait. An acknowledgement of a later batch proves
                                    that it was written; if none comes: restart

    in doubt an attempt got no response, or one that leaves open whether the records were written;
             no later error ends the doubt, so the numbers are never given to other records
    cut      batches behind lose their numbers, at once or as they come back; none gets a new one.
             One in doubt keeps its numbers, unless the cut itself proves that it is not in the log
    restart  once nothing is outstanding or on the wire: a new epoch, numbers from 0

Source: KIP-98; KIP-360 (raising the epoch in the client when that is safe). Unlike Java's client
nothing that may have been written is ever renumbered, so no bump makes a duplicate.

Invariants: outstanding batches have consecutive numbers, but for those acknowledged among them;
from the first outstanding one on, at most five batches have numbers, acknowledged or not, unless
one was split: an old leader may be silent while the next one acknowledges what follows and
remembers no more; a partition's identity never changes while a batch is outstanding or on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

OUTSTANDING_MAX: Final = 5
"""Brokers remember that many batches per producer and partition (TXL-1)."""
EPOCH_MAX: Final = (1 << 15) - 1
SEQUENCE_MASK: Final = (1 << 31) - 1


class ProducerIdentity(NamedTuple):
    """Producer id and epoch; sequences start at 0 for each producer epoch."""

    producer_id: int
    producer_epoch: int


class Identities:
    """The producer's current identity; None while one must be requested from a broker."""

    def __init__(
        self, *, is_transactional: bool = False, given: ProducerIdentity | None = None
    ) -> None:
        self.current = given
        #: Whether the producer never bumps its epoch itself: epochs come from its coordinator, or
        #: from the caller, who counts them so that older producers are fenced.
        self.is_fixed = is_transactional or given is not None

    def bump(self, from_identity: ProducerIdentity) -> None:
        """Make sure that the current identity is newer than this one."""
        current = self.current
        if current is None or current != from_identity or self.is_fixed:
            return
        if current.producer_epoch >= EPOCH_MAX:
            self.current = None
        else:
            self.current = current._replace(producer_epoch=current.producer_epoch + 1)

    def reset(self, from_identity: ProducerIdentity) -> None:
        """Request another producer id, unless that has happened since."""
        if self.current == from_identity:
            self.current = None


class NumberedBatch(Protocol):
    """The part of a batch that its sequence number depends on."""

    order: tuple[int, ...]
    record_count: int
    is_on_wire: bool
    is_in_doubt: bool
    producer_id: int
    producer_epoch: int
    sequence: int
    sequences: PartitionSequences | None


class PartitionSequences:
    """The sequence numbers of one partition."""

    __slots__ = (
        "_cut_from",
        "_known_producer_id",
        "_overtaking",
        "_unresolved",
        "_unwritten_from",
        "identity",
        "next_sequence",
        "on_wire_count",
        "outstanding",
    )

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        self.next_sequence = 0
        self.outstanding: list[NumberedBatch] = []
        self.on_wire_count = 0
        # The orders of those that were acknowledged before one that is still outstanding.
        self._overtaking: list[tuple[int, ...]] = []
        # The one of the last batch in the log: the broker knows which number must follow.
        self._known_producer_id = -1
        # The order of the batch from which on nothing can be written with the present numbers.
        self._cut_from: tuple[int, ...] | None = None
        # The same, and nothing was written with them either: one before was certainly refused.
        self._unwritten_from: tuple[int, ...] | None = None
        # The order of the last batch that failed while it was in doubt.
        self._unresolved: tuple[int, ...] | None = None

    @property
    def is_blocked(self) -> bool:
        """Whether new batches must wait for a restart."""
        return self._unresolved is not None or self._cut_from is not None

    def may_send(self, batch: NumberedBatch, identities: Identities) -> bool:
        """Whether the next batch of the queue may be sent now; may change the identity for it."""
        if batch.sequence >= 0:
            return self.outstanding[0] is batch
        if self.on_wire_count == 0 and not self.outstanding:
            return self._take_identity(identities)
        assert self.identity is not None
        is_known = self._known_producer_id == self.identity.producer_id
        room = OUTSTANDING_MAX if is_known else 1
        return not self.is_blocked and len(self.outstanding) + len(self._overtaking) < room

    def _take_identity(self, identities: Identities) -> bool:
        if self.is_blocked and self.identity is not None:
            identities.bump(self.identity)
        current = identities.current
        if current is None or (self.is_blocked and self.identity == current):
            return False
        if self.identity != current:
            self.identity, self.next_sequence = current, 0
        self._unresolved = self._cut_from = self._unwritten_from = None
        return True

    def on_sent(self, batch: NumberedBatch) -> None:
        """The batch is sent; it gets a sequence number unless it has one."""
        self.on_wire_count += 1
        batch.is_on_wire = True
        if batch.sequence >= 0:
            return
        assert self.identity is not None
        batch.sequences = self
        batch.producer_id, batch.producer_epoch = self.identity
        batch.sequence = self.next_sequence
        self.next_sequence = (self.next_sequence + batch.record_count) & SEQUENCE_MASK
        self.outstanding.append(batch)

    def on_response(self, batch: NumberedBatch) -> None:
        """The batch is no longer in flight; one of the calls below follows."""
        self.on_wire_count -= 1
        batch.is_on_wire = False

    def on_success(self, batch: NumberedBatch) -> None:
        """The batch is in the log, and so is all that was numbered before it."""
        if batch in self.outstanding:
            self._overtaking.append(batch.order)
            self._remove(batch)
        self._known_producer_id = batch.producer_id
        if self._unresolved is not None and batch.order >= self._unresolved:
            self._unresolved = None

    def log_may_be_new(self) -> None:
        """The topic has another id: its log may not know the producer."""
        self._known_producer_id = -1

    def is_first(self, batch: NumberedBatch) -> bool:
        """Whether nothing before the batch is outstanding, so that its gap is a real one."""
        return bool(self.outstanding) and self.outstanding[0] is batch

    def cut_before(self, batch: NumberedBatch) -> None:
        """What came before the batch is missing: it and all behind it need new numbers."""
        self._cut_from = min(self._cut_from or batch.order, batch.order)
        for other in list(self.outstanding):
            if not other.is_on_wire:
                self.on_retry(other)

    def on_retry(self, batch: NumberedBatch) -> None:
        """The batch waits for a retry, with its number unless that has become useless."""
        if self._cut_from is None or batch.order < self._cut_from:
            return
        is_unwritten = self._unwritten_from is not None and batch.order >= self._unwritten_from
        if not batch.is_in_doubt or is_unwritten:
            self.forget(batch)

    def forget(self, batch: NumberedBatch) -> None:
        """The batch has no number any more; it gets another one when it is sent again."""
        if batch in self.outstanding:
            self._remove(batch)
        batch.sequence = -1
        batch.sequences = None

    def on_failure(self, batch: NumberedBatch, *, is_certain: bool) -> None:
        """The batch has failed; `is_certain` says that it is not in the log."""
        if batch not in self.outstanding:
            return
        self._remove(batch)
        if not is_certain:
            self._unresolved = max(self._unresolved or batch.order, batch.order)
        elif self.next_sequence == _after(batch) and not self.is_blocked:
            # The last number that was given out, and never used.
            self.next_sequence = batch.sequence
        else:
            self._unwritten_from = min(self._unwritten_from or batch.order, batch.order)
            self.cut_before(batch)

    def _remove(self, batch: NumberedBatch) -> None:
        """Take a batch out; what was acknowledged behind it alone need not be counted any more."""
        self.outstanding.remove(batch)
        if self._overtaking:
            first = self.outstanding[0].order if self.outstanding else None
            self._overtaking = [
                order for order in self._overtaking if first is not None and order > first
            ]

    def split(self, batch: NumberedBatch, parts: Sequence[NumberedBatch]) -> None:
        """The parts of a batch that was refused as too large share out its numbers."""
        if batch not in self.outstanding:
            return
        sequence = batch.sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.sequence = sequence
            part.sequences = self
            sequence = (sequence + part.record_count) & SEQUENCE_MASK
        position = self.outstanding.index(batch)
        self.outstanding[position : position + 1] = parts


def _after(batch: NumberedBatch) -> int:
    return (batch.sequence + batch.record_count) & SEQUENCE_MASK

"""Which transactional batches compaction may drop: those of aborted transactions, and markers that
no longer mark anything.

Pure. Not here: the delete horizon, which a droppable marker has to wait for (`batch_filter`).
Source: KIP-98, KIP-534, REC-8. Use: show every batch, in offset order, below the last
stable offset. Invariant: a marker is droppable only if none of its transaction's batches is in the
log as it was read, so a batch never outlives its marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas_broker.log.transaction_index import AbortedTransaction
    from barnabas_protocol.records.batch import BatchHeader


class CleanedTransactions:
    """The transactions around the batch that is read next."""

    __slots__ = ("_aborted", "_committing", "_seen_aborting", "_waiting", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # The earliest last, so that the next one is popped from the end.
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborting: set[int] = set()
        self._committing: set[int] = set()
        # Index entries to be kept with the output: their batches were there when this round read
        # them.
        self.retained: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a data batch belongs to a transaction that was aborted."""
        self._admit(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen_aborting.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def is_marker_droppable(self, header: BatchHeader, *, is_abort: bool) -> bool:
        """Return whether nothing is left of the transaction that this marker ended."""
        self._admit(header.last_offset)
        producer_id = header.producer_id
        if not is_abort:
            if producer_id not in self._committing:
                return True
            self._committing.discard(producer_id)
            return False
        self._committing.discard(producer_id)
        entry = self._aborted.pop(producer_id, None)
        if entry is None or producer_id not in self._seen_aborting:
            return True
        self._seen_aborting.discard(producer_id)
        self.retained.append(entry)
        return False

    def _admit(self, last_offset: int) -> None:
        """Take in the aborted transactions that began at or before the batch."""
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= last_offset:
            entry = waiting.pop()
            self._aborted[entry.producer_id] = entry

"""Which of the records that were read a member acquires.

One walk over the record batches of a read, in the order of offsets, until there is enough. Not
here: where to read (`SharePartition.next_fetch_offset`), reading, who is first.

Source: KIP-932, KIP-1206; SHR-8 to SHR-12, SHR-34. Invariants: nothing is acquired behind the
window; under record_limit never more than the limit; offsets of which the log has no record, or one
of an aborted transaction, are archived and not acquired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas_broker.share.in_flight import AcquiredBatch, OffsetRange, RecordLock
from barnabas_broker.share.record_states import RecordState
from barnabas_broker.share.share_partition import SharePartition

RANGES_MAX: Final = 1_000
"""So many ranges one walk acquires: each takes some microseconds."""


class FetchedBatch(NamedTuple):
    """A record batch that was read: its offsets, both inclusive, and whether it was aborted."""

    base_offset: int
    last_offset: int
    is_aborted: bool = False


class AcquiredRecords(NamedTuple):
    """Offsets that were acquired, first to last inclusive, and the number of this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireParameters:
    """What a member wants: so many records, in acquired batches of about so many."""

    member_id: str
    records_max: int
    batch_size: int
    is_record_limit: bool = False


def acquire(
    partition: SharePartition,
    parameters: AcquireParameters,
    fetch_offset: int,
    batches: Sequence[FetchedBatch],
    now_ms: int,
) -> list[AcquiredRecords]:
    """Acquire records for a member out of the batches that were read from an offset on.

    The first batch holds the offset or begins above it; then what is between was not found.
    """
    if not batches or parameters.records_max <= 0:
        return []
    if batches[0].base_offset > fetch_offset:
        partition.archive(fetch_offset, batches[0].base_offset - 1)
    position = max(fetch_offset, batches[0].base_offset, partition.start_offset)
    return _Walk(partition, parameters, now_ms).over(batches, position)


class _Walk:
    """One walk over what was read."""

    __slots__ = (
        "_acquired",
        "_lock",
        "_locked",
        "_open_batch",
        "_parameters",
        "_part",
        "_partition",
        "_taken",
        "_window_end",
    )

    def __init__(
        self, partition: SharePartition, parameters: AcquireParameters, now_ms: int
    ) -> None:
        self._partition = partition
        self._parameters = parameters
        self._lock: RecordLock = partition.new_lock(now_ms)
        self._window_end = partition.window_end
        self._acquired: list[AcquiredRecords] = []
        self._locked: list[OffsetRange] = []
        # Where records that were never acquired before are put, while they follow one another.
        self._open_batch: AcquiredBatch | None = None
        # Of records that have failed often, the part that goes alone.
        self._part: _Part | None = None
        self._taken = 0

    def over(self, batches: Sequence[FetchedBatch], position: int) -> list[AcquiredRecords]:
        """Walk until there is enough; returns what is acquired by then."""
        for batch in batches:
            if self._taken >= self._parameters.records_max:
                break
            if batch.last_offset < position:
                continue
            self._close_batch_if_full()
            if batch.is_aborted:
                if self._part is not None:
                    break
                self._lock_taken()
                self._partition.archive(position, batch.last_offset)
                self._window_end = self._partition.window_end
            elif not self._take_batch(position, batch.last_offset):
                break
            position = max(batch.last_offset + 1, self._partition.start_offset)
        self._lock_taken()
        return self._acquired

    def _lock_taken(self) -> None:
        """Put what is acquired so far under the lock."""
        locked, self._locked, self._open_batch = self._locked, [], None
        if locked:
            first_offset, last_offset = locked[0].first_offset, locked[-1].last_offset
            self._partition.lock(locked, self._lock)
            self._partition.offsets.join(first_offset, last_offset)

    def _close_batch_if_full(self) -> None:
        """Begin another acquired batch at the border of a record batch (SHR-10)."""
        batch = self._open_batch
        if (
            batch is not None
            and not self._parameters.is_record_limit
            and batch.size >= self._parameters.batch_size
        ):
            self._open_batch = None

    def _take_batch(self, position: int, last_offset: int) -> bool:
        """Acquire what is Available or new in one record batch; False where the walk ends."""
        offsets = self._partition.offsets
        while position <= last_offset:
            left = self._left(position)
            if left <= 0 or len(self._acquired) >= RANGES_MAX:
                return False
            last = min(last_offset, position + left - 1)
            if position > offsets.end_offset:
                if self._part is not None:
                    return False
                added = OffsetRange(position, last, RecordState.AVAILABLE)
                offsets.append(added)
                self._mark(added)
                position = last + 1
                continue
            found = offsets.range_at(offsets.index_of(position))
            last = min(last, found.last_offset)
            if found.state is not RecordState.AVAILABLE:
                if self._part is not None:
                    return False
                self._open_batch = None
                position = found.last_offset + 1
                continue
            if not self._take_available(found, position, last):
                return False
            position = last + 1
        return True

    def _left(self, position: int) -> int:
        """How many offsets from a position on may be acquired in this record batch."""
        in_window = self._window_end - position + 1
        if self._parameters.is_record_limit:
            return min(in_window, self._parameters.records_max - self._taken)
        return in_window

    def _take_available(self, found: OffsetRange, first_offset: int, last_offset: int) -> bool:
        """Acquire a part of a range, or all of it; False where nothing may follow it."""
        part = self._part
        if part is None:
            part = self._part_of(found)
            if part is not None and self._taken:
                return False
            self._part = part
        elif part.batch is not found.batch or part.delivery_count != found.delivery_count:
            return False
        if part is not None:
            last_offset = min(last_offset, first_offset + part.left - 1)
            part.left -= last_offset - first_offset + 1
        for taken in self._partition.offsets.cut(first_offset, last_offset):
            self._mark(taken)
        return part is None or part.left > 0

    def _part_of(self, found: OffsetRange) -> _Part | None:
        """Return how many of a range that has failed often go together, None for others.

        Source: SHR-12. One bad record among many would else take all of them to their limit.
        """
        limit, count = self._partition.settings.delivery_count_limit, found.delivery_count
        threshold = max(2, -(-limit // 2))
        if count < threshold:
            return None
        if limit > 2 and count >= limit - 1:
            return _Part(found, 1)
        size = found.size if found.batch is None else found.batch.size
        return _Part(found, max(1, size >> (count - threshold + 1)))

    def _mark(self, taken: OffsetRange) -> None:
        """Acquire one range, which is Available, and note what is answered."""
        self._partition.offsets.move(taken, RecordState.ACQUIRED)
        taken.member_id = self._parameters.member_id
        taken.delivery_count += 1
        self._taken += taken.size
        if taken.batch is not None:
            self._open_batch = None
        else:
            if self._open_batch is None:
                self._open_batch = AcquiredBatch(taken.first_offset, taken.last_offset)
            self._open_batch.last_offset = taken.last_offset
            taken.batch = self._open_batch
        first_offset = taken.first_offset
        if self._locked:
            last = self._locked[-1]
            if (
                last.batch is taken.batch
                and last.delivery_count == taken.delivery_count
                and last.last_offset + 1 == first_offset
            ):
                first_offset = self._acquired.pop().first_offset
        self._locked.append(taken)
        self._acquired.append(
            AcquiredRecords(first_offset, taken.last_offset, taken.delivery_count)
        )


class _Part:
    """Offsets of one acquired batch that go alone: so many of one delivery count are left."""

    __slots__ = ("batch", "delivery_count", "left")

    def __init__(self, found: OffsetRange, size: int) -> None:
        self.batch = found.batch
        self.delivery_count = found.delivery_count
        self.left = size

"""The offsets in flight of one share partition, as ranges that are split only when they have to be.

A list of neighbouring ranges from the start offset to the end offset, without holes. Ranges are
found by bisection and joined again when nothing tells them apart. Not here: who may change what
(`share_partition.py`).

Source: SHR-5, SHR-6. Invariants: each offset from start to end is in exactly one range; a range
that is not Acquired has no member and no lock; `counts` is how many offsets are in each state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from barnabas_broker.share.dead_letters import DeadLetterCause
from barnabas_broker.share.record_states import FINAL, LEGAL, RecordState
from barnabas_broker.share.transition import Transition

_first = attrgetter("first_offset")


class AcquiredBatch:
    """The offsets that were first acquired together; how many there are is what counts (SHR-12)."""

    __slots__ = ("first_offset", "last_offset")

    def __init__(self, first_offset: int, last_offset: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last_offset - self.first_offset + 1


class RecordLock:
    """A lock on offsets that were acquired or renewed at the same moment.

    Those between its offsets that refer to it are under it: `held_count` of them.
    """

    __slots__ = ("deadline_ms", "first_offset", "held_count", "last_offset")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.first_offset = -1
        self.last_offset = -1
        self.held_count = 0


class OffsetRange:
    """Neighbouring offsets, first to last inclusive, that nothing tells apart."""

    __slots__ = (
        "batch",
        "cause",
        "delivery_count",
        "first_offset",
        "is_unwritten",
        "last_offset",
        "lock",
        "member_id",
        "state",
        "target",
        "transition",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        state: RecordState,
        delivery_count: int = 0,
        batch: AcquiredBatch | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        self.delivery_count = delivery_count
        self.batch = batch
        # Who has acquired it; the lock is None where it ran out during a transition.
        self.member_id: str | None = None
        self.lock: RecordLock | None = None
        # An acknowledgement whose write is under way, and the state that it leads to.
        self.transition: Transition | None = None
        self.target = state
        # Why it is to be Archiving, where the target is that.
        self.cause: DeadLetterCause | None = None
        # Changed without an acknowledgement, and not written since.
        self.is_unwritten = False

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.last_offset - self.first_offset + 1

    @property
    def is_final(self) -> bool:
        """Whether it never changes any more."""
        return self.state in FINAL

    def split_at(self, offset: int) -> OffsetRange:
        """Cut the range before an offset inside of it; returns the upper part."""
        upper = OffsetRange(offset, self.last_offset, self.state, self.delivery_count, self.batch)
        upper.member_id = self.member_id
        upper.lock = self.lock
        upper.transition = self.transition
        upper.target = self.target
        upper.cause = self.cause
        upper.is_unwritten = self.is_unwritten
        self.last_offset = offset - 1
        return upper

    def is_like(self, other: OffsetRange) -> bool:
        """Whether nothing tells the two apart any more."""
        if (
            self.state is not other.state
            or self.transition is not other.transition
            or self.is_unwritten is not other.is_unwritten
        ):
            return False
        is_same = self.delivery_count == other.delivery_count and self.batch is other.batch
        if self.transition is not None:
            return (
                is_same
                and self.target is other.target
                and self.cause is other.cause
                and self.lock is other.lock
            )
        if self.state is RecordState.ACQUIRED:
            return is_same and self.lock is other.lock
        if self.is_final:  # where it is written, its count is of no interest any more
            return not self.is_unwritten or self.delivery_count == other.delivery_count
        return is_same


class OffsetsInFlight:
    """The ranges from the start offset to the end offset."""

    __slots__ = ("_available_hint", "_ranges", "counts", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self._ranges: list[OffsetRange] = []
        self.counts = dict.fromkeys(RecordState, 0)
        # No offset below it is Available.
        self._available_hint = start_offset

    @property
    def end_offset(self) -> int:
        """The last offset in flight, inclusive; start - 1 if there is none."""
        return self._ranges[-1].last_offset if self._ranges else self.start_offset - 1

    @property
    def offset_count(self) -> int:
        """How many offsets are in flight, in whatever state."""
        return self.end_offset - self.start_offset + 1

    @property
    def range_count(self) -> int:
        """How many ranges these offsets take."""
        return len(self._ranges)

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self._ranges)

    # Look-ups.

    def index_of(self, offset: int) -> int:
        """The index of the range that holds an offset, which must be in flight."""
        return bisect_right(self._ranges, offset, key=_first) - 1

    def range_at(self, index: int) -> OffsetRange:
        """The range of an index."""
        return self._ranges[index]

    def touching(self, first_offset: int, last_offset: int) -> list[OffsetRange]:
        """The ranges that have some offset from first to last."""
        first = max(first_offset, self.start_offset)
        last = min(last_offset, self.end_offset)
        if first > last:
            return []
        return self._ranges[self.index_of(first) : self.index_of(last) + 1]

    def first_available(self) -> int | None:
        """The first Available offset."""
        if not self.counts[RecordState.AVAILABLE]:
            return None
        index = self.index_of(max(self._available_hint, self.start_offset))
        while self._ranges[index].state is not RecordState.AVAILABLE:
            index += 1
        self._available_hint = self._ranges[index].first_offset
        return self._available_hint

    # Changes.

    def cut(self, first_offset: int, last_offset: int) -> list[OffsetRange]:
        """Split so that ranges begin and end at the offsets; returns those between them.

        Both offsets must be in flight.
        """
        ranges = self._ranges
        low = self.index_of(first_offset)
        if ranges[low].first_offset < first_offset:
            upper = ranges[low].split_at(first_offset)
            low += 1
            ranges.insert(low, upper)
        if ranges[low].last_offset >= last_offset:
            high = low
        else:
            high = bisect_right(ranges, last_offset, low, key=_first) - 1
        if ranges[high].last_offset > last_offset:
            ranges.insert(high + 1, ranges[high].split_at(last_offset + 1))
        return ranges[low : high + 1]

    def cut_runs(self, runs: Sequence[tuple[int, int]]) -> list[list[OffsetRange]]:
        """Do `cut` for many runs of offsets, in their order, in one pass over the ranges."""
        ranges = self._ranges
        low = index = self.index_of(runs[0][0])
        rebuilt: list[OffsetRange] = []
        result: list[list[OffsetRange]] = []
        current = ranges[index]
        for first_offset, last_offset in runs:
            while current.last_offset < first_offset:
                rebuilt.append(current)
                index += 1
                current = ranges[index]
            if current.first_offset < first_offset:
                upper = current.split_at(first_offset)
                rebuilt.append(current)
                current = upper
            part: list[OffsetRange] = []
            while current.last_offset < last_offset:
                part.append(current)
                index += 1
                current = ranges[index]
            if current.last_offset > last_offset:
                upper = current.split_at(last_offset + 1)
                part.append(current)
                rebuilt.extend(part)
                current = upper
            else:
                part.append(current)
                rebuilt.extend(part[:-1])
            result.append(part)
        rebuilt.append(current)
        ranges[low : index + 1] = rebuilt
        return result

    def append(self, added: OffsetRange) -> None:
        """Put a range behind the end; it must follow it without a hole."""
        assert added.first_offset == self.end_offset + 1
        self._ranges.append(added)
        self.counts[added.state] += added.size
        self._note_available(added)

    def extend(self, last_offset: int) -> None:
        """Let the last range end later."""
        last = self._ranges[-1]
        self.counts[last.state] += last_offset - last.last_offset
        last.last_offset = last_offset

    def move(self, moved: OffsetRange, state: RecordState) -> None:
        """Put a range into another state, along the legal ways only (SHR-5)."""
        assert state in LEGAL[moved.state], (moved.state, state)
        self.counts[moved.state] -= moved.size
        self.counts[state] += moved.size
        moved.state = moved.target = state
        self._note_available(moved)

    def _note_available(self, changed: OffsetRange) -> None:
        if changed.state is RecordState.AVAILABLE:
            self._available_hint = min(self._available_hint, changed.first_offset)

    def join(self, first_offset: int, last_offset: int) -> None:
        """Join the ranges from first to last, and their neighbours, where they are alike."""
        first = max(first_offset, self.start_offset)
        last = min(last_offset, self.end_offset)
        if first > last:
            return
        ranges = self._ranges
        low = max(self.index_of(first) - 1, 0)
        high = min(self.index_of(last) + 2, len(ranges))
        joined = [ranges[low]]
        for following in ranges[low + 1 : high]:
            if joined[-1].is_like(following):
                joined[-1].last_offset = following.last_offset
            else:
                joined.append(following)
        if len(joined) < high - low:
            ranges[low:high] = joined

    def advance_start(self) -> bool:
        """Move the start over all final offsets in front; returns whether it moved (SHR-6)."""
        count = 0
        for candidate in self._ranges:
            if not candidate.is_final or candidate.transition is not None:
                break
            count += 1
        if not count:
            return False
        self._drop(count)
        return True

    def move_start(self, offset: int) -> list[OffsetRange]:
        """Let everything below an offset go, whatever its state (SHR-7); returns that."""
        assert offset > self.start_offset
        if offset > self.end_offset:
            gone = self._ranges
            self._ranges = []
            self.counts = dict.fromkeys(RecordState, 0)
            self.start_offset = offset
            return gone
        index = self.index_of(offset)
        if self._ranges[index].first_offset < offset:
            self._ranges.insert(index + 1, self._ranges[index].split_at(offset))
            index += 1
        return self._drop(index)

    def _drop(self, count: int) -> list[OffsetRange]:
        gone = self._ranges[:count]
        for dropped in gone:
            self.counts[dropped.state] -= dropped.size
        del self._ranges[:count]
        self.start_offset = gone[-1].last_offset + 1
        return gone

"""The segments of one partition log, ordered by base offset.

Not here: what is in them. Source: LOG-1. Invariants: base offsets strictly rise; the
last segment is the active one; there is always one, except while a log is being rebuilt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from barnabas_broker.log.segment import Segment


class Segments:
    """An ordered map from base offset to segment."""

    __slots__ = ("_bases", "_segments")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        """The last segment, the only one that is written to."""
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def base_offsets(self) -> list[int]:
        """All base offsets, rising."""
        return list(self._bases)

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    def values(self) -> list[Segment]:
        """All segments, oldest first: a copy that changes do not touch."""
        return list(self._segments)

    def floor(self, offset: int) -> Segment:
        """The segment with the largest base offset <= `offset`, the first if there is none."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """The next segment by base offset, None after the active one."""
        number = bisect_right(self._bases, segment.base_offset)
        return self._segments[number] if number < len(self._segments) else None

    def end_offset(self, segment: Segment, log_end_offset: int) -> int:
        """Where a segment ends, exclusive."""
        following = self.after(segment)
        return log_end_offset if following is None else following.base_offset

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments that may hold offsets at or above `offset`."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def append(self, segment: Segment) -> None:
        """Add a new active segment, whose base offset is above all others."""
        if self._bases and segment.base_offset <= self._bases[-1]:
            raise ValueError(f"segment {segment.base_offset} is not above {self._bases[-1]}")
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segments: Iterable[Segment]) -> None:
        """Take segments out."""
        gone = {segment.base_offset for segment in segments}
        self._segments = [item for item in self._segments if item.base_offset not in gone]
        self._bases = [segment.base_offset for segment in self._segments]

    def replace(self, old: Iterable[Segment], new: Iterable[Segment]) -> None:
        """Put new segments in the place of old ones."""
        gone = {segment.base_offset for segment in old}
        kept = [item for item in self._segments if item.base_offset not in gone]
        self._segments = sorted([*kept, *new], key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

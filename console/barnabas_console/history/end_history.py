"""Where the ends of partitions were: from that, how long ago a committed offset was the end.

So lag has a unit that people feel, without reading a record, and on Apache Kafka as well (CON-137).
Pure but for its memory.

Invariants: at most `PARTITIONS_MAX` partitions, the first that came, with `POINTS_MAX` points each;
when these are full every second one of the older half goes, so that the recent past stays exact and
the reach long. Between two points an end is taken to have moved evenly.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from barnabas_protocol.ids import TopicPartition

PARTITIONS_MAX: Final = 4_000
POINTS_MAX: Final = 64


class _Points:
    """Moments and ends of one partition, both ascending."""

    __slots__ = ("ends", "times")

    def __init__(self) -> None:
        self.times = array("q")
        self.ends = array("q")

    def add(self, at_ms: int, end: int) -> None:
        if self.ends and (end < self.ends[-1] or at_ms < self.times[-1]):
            # The topic was made anew, or the clock set back: what was before says nothing now.
            self.times, self.ends = array("q"), array("q")
        if len(self.ends) >= 2 and self.ends[-1] == self.ends[-2] == end:
            self.times[-1] = at_ms
            return
        if len(self.ends) >= POINTS_MAX:
            half = POINTS_MAX // 2
            self.times = self.times[0:half:2] + self.times[half:]
            self.ends = self.ends[0:half:2] + self.ends[half:]
        self.times.append(at_ms)
        self.ends.append(end)

    def moment_of(self, offset: int) -> int | None:
        """When the end was this offset for the last time; None before the first point."""
        place = bisect_right(self.ends, offset)
        if place == 0:
            return None
        if place == len(self.ends):
            return self.times[-1]
        before, after = self.ends[place - 1], self.ends[place]
        share = (offset - before) / (after - before)
        return round(self.times[place - 1] + share * (self.times[place] - self.times[place - 1]))


class EndHistory:
    """The ends of those partitions that groups read."""

    def __init__(self) -> None:
        self._points: dict[TopicPartition, _Points] = {}

    def __len__(self) -> int:
        """How many partitions are remembered."""
        return len(self._points)

    def add(self, place: TopicPartition, end: int, at_ms: int) -> None:
        """What the end was at a moment of the wall clock."""
        points = self._points.get(place)
        if points is None:
            if len(self._points) >= PARTITIONS_MAX:
                return
            points = self._points[place] = _Points()
        points.add(at_ms, end)

    def forget_others(self, places: Collection[TopicPartition]) -> None:
        """Free what is kept for partitions that no group reads any more."""
        for gone in self._points.keys() - set(places):
            del self._points[gone]

    def behind_ms(self, place: TopicPartition, offset: int, now_ms: int) -> int | None:
        """How long ago the end was at the offset; None where the history does not reach there."""
        points = self._points.get(place)
        moment = None if points is None else points.moment_of(offset)
        return None if moment is None else max(0, now_ms - moment)

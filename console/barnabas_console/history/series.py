"""Series of numbers of the last hour, in memory: one row of times, and a column for each name.

A name is `kind:metric:thing`, the thing last because its name may have any characters:
`group:lag:billing`, `topic:arriving:orders`, `cluster:arriving:`. What was not recorded in a slot
is a gap.

Invariants (CON-137): at most `SERIES_MAX` columns of `SLOTS` numbers; the one that was neither
recorded nor read for the longest time makes room. Slots may be further apart than ten seconds,
never closer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from math import isnan, nan
from typing import Final

SERIES_MAX: Final = 1_000
SLOTS: Final = 360
TREND_MS: Final = 3_600_000
_GAP: Final = nan
_EMPTY: Final = array("f", [_GAP]) * SLOTS


class SeriesStore:
    """The columns, in a ring of slots that they share."""

    def __init__(self) -> None:
        self._times = array("q", [0]) * SLOTS
        self._count = 0
        # The least recently used first.
        self._columns: dict[str, array[float]] = {}
        # By how many parts an hour has: where each begins and ends. A page has a hundred trends.
        self._parts: dict[int, list[tuple[int, slice]]] = {}

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._columns)

    def begin(self, at_ms: int) -> None:
        """Open the next slot; a clock that was set back leaves times in order all the same."""
        slot = self._count % SLOTS
        if self._count:
            at_ms = max(at_ms, self._times[(self._count - 1) % SLOTS] + 1)
        self._times[slot] = at_ms
        self._count += 1
        self._parts.clear()
        for column in self._columns.values():
            column[slot] = _GAP

    def record(self, name: str, value: float | None) -> None:
        """Put a number into the slot that is open; None is a gap."""
        column = self._columns.pop(name, None)
        if column is None:
            if value is None or not self._count:
                return
            while len(self._columns) >= SERIES_MAX:
                del self._columns[next(iter(self._columns))]
            column = array("f", _EMPTY)
        self._columns[name] = column
        column[(self._count - 1) % SLOTS] = _GAP if value is None else value

    def forget(self, names: Iterable[str]) -> None:
        """Free the columns of what is gone."""
        for name in names:
            self._columns.pop(name, None)

    def times(self, since_ms: int = 0) -> list[int]:
        """The moments of the slots after `since_ms`, ascending."""
        return [at_ms for at_ms in map(self._times.__getitem__, self._order()) if at_ms > since_ms]

    def column(self, name: str, since_ms: int = 0) -> list[float | None] | None:
        """The numbers at `times(since_ms)`, None for gaps; None for an unknown name."""
        column = self._columns.get(name)
        if column is None:
            return None
        return [
            None if isnan(column[slot]) else _short(column[slot])
            for slot in self._order()
            if self._times[slot] > since_ms
        ]

    def last(self, name: str) -> float | None:
        """The number in the slot that is open; None for a gap, or an unknown name."""
        column = self._columns.get(name)
        value = _GAP if column is None or not self._count else column[(self._count - 1) % SLOTS]
        return None if isnan(value) else _short(value)

    def trend(self, name: str, points: int) -> list[float | None] | None:
        """The last hour in so many numbers, the largest of each part; None for an unknown name.

        Parts that were before the console was started are gaps, too.
        """
        column = self._columns.get(name)
        if column is None:
            return None
        found: list[float | None] = [None] * points
        first = self._count % SLOTS if self._count > SLOTS else 0
        in_order = column[first:] + column[:first]
        for part, slots in self._parts_of(points):
            values = in_order[slots]
            if isnan(sum(values)):
                values = array("f", [value for value in values if not isnan(value)])
            if values:
                found[part] = _short(max(values))
        return found

    def _parts_of(self, points: int) -> list[tuple[int, slice]]:
        """The parts of the last hour that have slots, and which of those in order."""
        known = self._parts.get(points)
        if known is not None:
            return known
        times = self.times(-1)
        first_of: dict[int, int] = {}
        for place, at_ms in enumerate(times):
            first_of.setdefault(points - 1 - (times[-1] - at_ms) * points // TREND_MS, place)
        ends = [*first_of.values(), len(times)][1:]
        self._parts[points] = found = [
            (part, slice(first, end))
            for (part, first), end in zip(first_of.items(), ends, strict=True)
            if part >= 0
        ]
        return found

    def _order(self) -> list[int]:
        """The slots that were opened, the oldest first."""
        first = max(0, self._count - SLOTS)
        return [number % SLOTS for number in range(first, self._count)]


def _short(value: float) -> float:
    """Single precision has seven digits: no more are told."""
    return float(f"{value:.7g}")

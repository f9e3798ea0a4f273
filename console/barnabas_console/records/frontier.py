"""One partition while it is read, window by window, forwards or backwards. Pure.

Kafka reads forwards alone. Backwards, a window of offsets below the edge is read from its begin to
its end, and the edge moves to its begin. Windows double over gaps (compaction, markers of
transactions), and shrink where they turn out to hold too much.

Source: CON-136. Invariant: between where it began and `edge` every record was read or is in
`rows`; what was taken is a run of records without a hole, ending at `resume`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from barnabas_client.cluster.offset_ranges import OffsetRange

WINDOW_OFFSETS_MAX: Final = 1 << 40
SMALL_WINDOW_OFFSETS: Final = 16
"""A window of so few offsets is read whatever it holds."""
_SPARSE: Final = 4


class Direction(Enum):
    """Which way records are read."""

    BACKWARDS = "backwards"
    FORWARDS = "forwards"


class Window(NamedTuple):
    """Offsets to read, the end exclusive."""

    start: int
    end: int


class Placed(Protocol):
    """What has an offset and a time."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp_ms(self) -> int:
        """Its time."""


Row = TypeVar("Row", bound=Placed)


class Frontier(Generic[Row]):
    """How far a partition was read; `held` is what it held when the reading began."""

    def __init__(
        self,
        partition: int,
        held: OffsetRange,
        at: int,
        direction: Direction,
        window_offsets: int,
    ) -> None:
        self.partition = partition
        self.held = held
        self.began_at = held.clamped(at)
        self.edge = self.began_at
        #: Read and not taken yet, the next one first.
        self.rows: deque[Row] = deque()
        #: The time of the last record that was read; None before the first.
        self.reached_ms: int | None = None
        #: Why it is not read any further; None while it is.
        self.problem: str | None = None
        self._is_backwards = direction is Direction.BACKWARDS
        self._window_offsets = window_offsets

    @property
    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        return self.edge <= self.held.start if self._is_backwards else self.edge >= self.held.end

    @property
    def is_hungry(self) -> bool:
        """Whether it has to be read before its next record is known."""
        return not self.rows and not self.is_read and self.problem is None

    @property
    def window(self) -> Window:
        """The window to read next."""
        if self._is_backwards:
            return Window(max(self.held.start, self.edge - self._window_offsets), self.edge)
        return Window(self.edge, min(self.held.end, self.edge + self._window_offsets))

    @property
    def resume(self) -> int:
        """Where to go on behind what was taken: an exclusive end backwards, else a begin."""
        if not self.rows:
            return self.edge
        return self.rows[0].offset + 1 if self._is_backwards else self.rows[0].offset

    @property
    def taken(self) -> Window:
        """The offsets of which every record was taken."""
        return Window(*sorted((self.began_at, self.resume)))

    @property
    def is_window_small(self) -> bool:
        """Whether the next window is read whatever it holds."""
        return self._window_offsets <= SMALL_WINDOW_OFFSETS

    def add(
        self,
        window: Window,
        rows: Sequence[Row],
        seen_count: int,
        reached_ms: int | None,
        keep: int,
    ) -> None:
        """Take over a window that was read whole: its rows in the order of offsets.

        `seen_count` records were in it, not all of which need be rows. More rows than `keep` are
        dropped, and read again later.
        """
        assert window == self.window, "a window is read from the edge on"
        if reached_ms is not None:
            self.reached_ms = reached_ms
        ordered = list(reversed(rows)) if self._is_backwards else list(rows)
        if len(ordered) > keep:
            ordered = ordered[:keep]
            last = ordered[-1].offset if ordered else None
            if last is not None:
                self.edge = last if self._is_backwards else last + 1
        else:
            self.edge = window.start if self._is_backwards else window.end
        self.rows.extend(ordered)
        if seen_count * _SPARSE < self._window_offsets:
            self._window_offsets = min(self._window_offsets * 2, WINDOW_OFFSETS_MAX)

    def grow(self) -> None:
        """Read more at once: the last window was little work."""
        self._window_offsets = min(self._window_offsets * 2, WINDOW_OFFSETS_MAX)

    def shrink(self) -> None:
        """Read less at once: the window held too much."""
        self._window_offsets = max(self._window_offsets // 8, 1)


def next_by_time(frontiers: Sequence[Frontier[Row]], direction: Direction) -> Frontier[Row] | None:
    """The frontier whose next record is the youngest (forwards: the oldest); None without any.

    Of two of the same time, that of the lower partition.
    """
    ready = [one for one in frontiers if one.rows]
    if not ready:
        return None
    sign = -1 if direction is Direction.BACKWARDS else 1
    return min(ready, key=lambda one: (sign * one.rows[0].timestamp_ms, one.partition))

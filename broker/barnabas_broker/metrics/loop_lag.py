"""How late the loop comes to what it should do: the sign of a process that stalls.

A timer notes by how much it was late. Twice a second, which costs nothing, so a stall is seen to
half a second and its whole length to as much less.

Only where somebody can ask for it: it is started with the admin HTTP.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

from barnabas_broker.metrics.sample import Sample

INTERVAL_SECONDS: Final = 0.5
# The largest lag is told for at least one and at most two of these, whoever scrapes how often.
WINDOW_SECONDS: Final = 60.0


class LoopLag:
    """The lag of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make one that does not measure yet."""
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._window_began = 0.0
        self._max_seconds = 0.0
        self._max_before_seconds = 0.0
        self._sum_seconds = 0.0

    def start(self) -> None:
        """Measure from now on."""
        self._window_began = self._loop.time()
        self._wait()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def note(self, lag_seconds: float, now: float) -> None:
        """Take note of one lag, at this time of the loop."""
        if now - self._window_began >= WINDOW_SECONDS:
            self._window_began = now
            self._max_before_seconds = self._max_seconds
            self._max_seconds = 0.0
        self._max_seconds = max(self._max_seconds, lag_seconds)
        self._sum_seconds += lag_seconds

    @property
    def max_ms(self) -> float:
        """The most that the loop came late, in the last one or two minutes."""
        return max(self._max_seconds, self._max_before_seconds) * 1000

    def samples(self) -> Iterator[Sample]:
        """For the collector."""
        yield Sample(
            "barnabas_loop_lag_seconds_max",
            "gauge",
            "The most that the loop came late to a timer, in the last one or two minutes.",
            {},
            max(self._max_seconds, self._max_before_seconds),
        )
        yield Sample(
            "barnabas_loop_lag_seconds_total",
            "counter",
            "What the loop came late to a timer that asks twice a second, added up.",
            {},
            self._sum_seconds,
        )

    def _wait(self) -> None:
        due = self._loop.time() + INTERVAL_SECONDS
        self._timer = self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        now = self._loop.time()
        self.note(max(now - due, 0.0), now)
        self._wait()

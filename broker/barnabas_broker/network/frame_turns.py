"""How long the frames of all connections may take in one turn of the loop.

A connection has 256 KiB read at a time, which is ten thousand small requests: a tenth of a second
in which nobody else had a turn. So who has sent several asks here before it goes on. It is no queue
and keeps nobody: whoever is told to stop goes on in the next turn.

Source: NET-6.
"""

import asyncio
from typing import Final

from barnabas_broker.env.clock import Clock

TURN_NS: Final = 4_000_000
"""Half of what a turn may take; a turn's appends and responses come behind."""


class FrameTurns:
    """The time for frames in the present turn of a loop."""

    __slots__ = ("_clock_ns", "_ends_ns", "_has_begun", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock_ns = clock.monotonic_ns
        self._has_begun = False
        self._ends_ns = 0

    def is_over(self) -> bool:
        """Whether the time of this turn is over; it begins with the first who asks."""
        now_ns = self._clock_ns()
        if self._has_begun:
            return now_ns >= self._ends_ns
        self._has_begun = True
        self._ends_ns = now_ns + TURN_NS
        self._loop.call_soon(self._end)
        return False

    def _end(self) -> None:
        self._has_begun = False

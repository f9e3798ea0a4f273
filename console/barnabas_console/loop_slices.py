"""`LoopSlices`: long work on the event loop in slices, so that pages go on beside it.

Source: CON-136, CON-174. Invariant: who asks after each small piece of work holds the loop for
`SLICE_MS` and that piece at most. To ask costs as much as a step of the cheapest loops, so those go
through their items by `pieces`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

from barnabas_client.env import Clock

SLICE_MS: Final = 8
"""So long one works before others get the loop."""
PIECE_ITEMS: Final = 100
"""Of what takes a few microseconds each, so many are less than a millisecond."""

T = TypeVar("T")


class LoopSlices:
    """Gives the loop to others once a slice is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.monotonic_ms()

    async def pause_if_due(self) -> None:
        """Let others run if it is time."""
        if self._clock.monotonic_ms() - self._began_ms >= SLICE_MS:
            await self.pause()

    async def pause(self) -> None:
        """Let others run: what comes now takes some milliseconds and cannot be cut."""
        await asyncio.sleep(0)
        self._began_ms = self._clock.monotonic_ms()

    async def pieces(self, items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """All items, `PIECE_ITEMS` at a time; others run before a piece if it is time."""
        for start in range(0, len(items), PIECE_ITEMS):
            await self.pause_if_due()
            yield items[start : start + PIECE_ITEMS]

"""`LoopSlices`: long work on the event loop in slices, so that pages go on beside it.

Source: CON-136, CON-174. Invariant: who asks after each small piece of work holds the loop for
`SLICE_MS` and that piece at most.
"""

from __future__ import annotations

import asyncio
from typing import Final

from barnabas_client.env import Clock

SLICE_MS: Final = 8
"""So long one works before others get the loop."""


class LoopSlices:
    """Gives the loop to others once a slice is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms = clock.monotonic_ms()

    async def pause_if_due(self) -> None:
        """Let others run if it is time."""
        if self._clock.monotonic_ms() - self._began_ms >= SLICE_MS:
            await asyncio.sleep(0)
            self._began_ms = self._clock.monotonic_ms()

"""How often work on the event loop lets others run: by a clock, not by how fast a machine is."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from barnabas_console.loop_slices import SLICE_MS, LoopSlices

T = TypeVar("T")


class SpentClock:
    """A clock by which a slice is over whenever somebody looks."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        self.now_ms += SLICE_MS
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


def spent_slices() -> LoopSlices:
    """Slices that pause each time that somebody asks."""
    return LoopSlices(SpentClock())


async def turns_beside(work: Awaitable[T]) -> tuple[T, int]:
    """What the work results in, and how often others had the loop meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    try:
        return await work, turns
    finally:
        task.cancel()

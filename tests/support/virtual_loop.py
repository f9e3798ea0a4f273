"""An event loop whose time passes only while nothing else is to be done, and then at once.

Hours of timers run in milliseconds, in the right order. A loop that would wait for ever raises
`DeadlockError` instead, so a forgotten wake-up fails at once and says so. Threads and real sockets
have no place in it: time would run away from them.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Nothing is ready and no timer is set: the awaited thing can never happen."""


class _Selector(selectors.SelectSelector):
    """Passes virtual time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # The only socket there is wakes the loop from other threads; what they want is noted first.
        ready = super().select(0) if len(self.get_map()) > 1 else []
        if not ready and timeout is None:
            raise DeadlockError("the virtual loop would wait for ever")
        if not ready and timeout is not None and timeout > 0:
            self.now_seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop on virtual time, which starts at 0."""

    def __init__(self) -> None:
        self._virtual_selector = _Selector()
        super().__init__(self._virtual_selector)
        # Otherwise the loop treats timers within the real clock's resolution as due.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_selector.now_seconds


class VirtualClock:
    """The broker's clock on a virtual loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._wall_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def wall_ms(self) -> int:
        return self._wall_ms + self.monotonic_ms()


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)

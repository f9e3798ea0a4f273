"""What requests need much processor time for: in threads a few at a time, or on the loop in slices.

A thread takes the interpreter from the loop for some milliseconds at a time, so few may run at
once: the others wait here, first come, first served. Requests of brokers do not wait behind those
of clients.

What must be done on the loop, because it reads or changes what belongs to the loop, is done a slice
at a time: who does it pauses in between, and of all who pause one goes on in a turn of the loop.
Else a hundred connections would hold it up for a hundred slices.

Not for waiting for devices: that is `env.Disk`'s alone.

Invariant: bounded by connections. One of a client has at most one piece of work here, as its next
requests are held meanwhile, and a connection that ends takes what waits of it along.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from barnabas_broker.network.session import InFlightRequest

Result = TypeVar("Result")
Element = TypeVar("Element")
Held = TypeVar("Held")
Run = Callable[..., Awaitable[Any]]
Pause = Callable[[], Awaitable[None]]
Meter = Callable[[InFlightRequest, Awaitable[Any]], Awaitable[Any]]
"""Waits for what a thread does for a request, and counts the time."""

SLICE: Final = 500
"""Elements between two pauses: a few milliseconds where each takes some microseconds."""
LANE_WIDTH = 1
"""Pieces at work for clients, and as many for brokers: each more may hold the loop up for the
interpreter's switch interval, 5 ms."""


class ConnectionGoneError(Exception):
    """The connection ended before its work was done, or begun."""


class HeavyWork:
    """Two lanes of work: for connections of clients and for those of brokers."""

    def __init__(self, run: Run, *listeners_of_brokers: str) -> None:
        """Make one that runs functions by `run`, which is `Disk.run`."""
        self._run = run
        self._listeners_of_brokers = frozenset(listeners_of_brokers)
        self._lanes = {is_of_brokers: _Lane() for is_of_brokers in (False, True)}
        self._paused: deque[asyncio.Future[None]] = deque()
        self.meter: Meter | None = None
        self.run_count = 0
        self.pause_count = 0

    async def pause(self) -> None:
        """Let the loop go on. Of all who pause, who came first goes on in its next turn."""
        self.pause_count += 1
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._paused.append(turn)
        if len(self._paused) == 1:
            loop.call_soon(self._go_on, loop)
        await turn

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._paused:
            turn = self._paused.popleft()
            if not turn.done():  # or cancelled
                turn.set_result(None)
                break
        if self._paused:
            loop.call_soon(self._go_on, loop)

    async def pause_of(self, in_flight: InFlightRequest) -> None:
        """The same for work that is nobody's any more when the connection has ended.

        Raises: ConnectionGoneError.
        """
        await self.pause()
        if in_flight.session.is_closed:
            raise ConnectionGoneError

    async def each(
        self, in_flight: InFlightRequest, elements: Iterable[Element], size: int = SLICE
    ) -> AsyncIterator[Element]:
        """The elements of a request, with a pause before each slice of a size but the first.

        Raises: ConnectionGoneError.
        """
        for index, element in enumerate(elements):
            if index and index % size == 0:
                await self.pause_of(in_flight)
            yield element

    async def run(
        self, in_flight: InFlightRequest, function: Callable[..., Result], *arguments: Any
    ) -> Result:
        """The result of a function that is called in a thread when it is its turn.

        Raises: ConnectionGoneError where the connection ended first; what the function raises.
        """
        lane = self._lanes[in_flight.session.listener_name in self._listeners_of_brokers]
        await lane.enter(in_flight)
        try:
            self.run_count += 1
            work = self._run(function, *arguments)
            if self.meter is not None:
                work = self.meter(in_flight, work)
            result: Result = await work
            return result
        finally:
            lane.leave()

    async def run_own(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The same for work of this broker that belongs to no request."""
        lane = self._lanes[True]
        await lane.enter(None)
        try:
            self.run_count += 1
            result: Result = await self._run(function, *arguments)
            return result
        finally:
            lane.leave()

    @property
    def waiting_count(self) -> int:
        """How many wait for their turn."""
        return sum(len(lane.waiting) for lane in self._lanes.values())


def each_and_held(
    elements: Iterable[Element], held: Callable[[Element], Iterable[Held]]
) -> Iterator[tuple[Element, Held | None]]:
    """Each element by itself, with None, then beside each of those that it holds.

    So that `HeavyWork.each` counts all of them: it would not see a slice in topics of 499
    partitions each.
    """
    for element in elements:
        yield element, None
        for one in held(element):
            yield element, one


class _Lane:
    """At most `LANE_WIDTH` at work, the others in order."""

    def __init__(self) -> None:
        self._running = 0
        # A dictionary as an ordered set: one that goes is taken out at once.
        self.waiting: dict[asyncio.Future[bool], None] = {}

    async def enter(self, in_flight: InFlightRequest | None) -> None:
        """Wait for a place. Raises: ConnectionGoneError."""
        if in_flight is not None and in_flight.session.is_closed:
            raise ConnectionGoneError
        if self._running < LANE_WIDTH:
            self._running += 1
            return
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.waiting[turn] = None

        def gone() -> None:
            if not turn.done():
                del self.waiting[turn]
                turn.set_result(False)

        if in_flight is not None:
            in_flight.on_closed(gone)
        try:
            is_turn = await turn
        except asyncio.CancelledError:
            if turn in self.waiting:
                del self.waiting[turn]
            elif turn.done() and not turn.cancelled() and turn.result():
                self.leave()  # it was its turn, and it is cancelled
            raise
        finally:
            if in_flight is not None:
                in_flight.on_abandoned = None
        if not is_turn:
            raise ConnectionGoneError

    def leave(self) -> None:
        """Pass the place on."""
        for turn in self.waiting:
            del self.waiting[turn]
            turn.set_result(True)
            return
        self._running -= 1

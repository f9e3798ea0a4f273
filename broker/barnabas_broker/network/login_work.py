"""What log-ins need threads for: hashing and signatures, a few at a time, each address in turn.

An address that floods the broker with log-ins waits behind itself alone. Not for anything else:
`HeavyWork` is for requests.

Invariants: at most `WAITING_MAX` pieces wait, `WAITING_OF_ADDRESS_MAX` of one address; a connection
has one at most, since it is held meanwhile.
Source: SEC-22.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

WIDTH: Final = 2
"""At work at a time; hashing lets go of the interpreter meanwhile."""
WAITING_MAX: Final = 2_000
WAITING_OF_ADDRESS_MAX: Final = 500
"""Some seconds' worth; behind a proxy all clients have one address."""


class TooManyLoginsError(Exception):
    """So many log-ins wait that another would wait in vain."""


class LoginWork:
    """A queue for each address, served in turn."""

    def __init__(self, run: Callable[..., Awaitable[Any]]) -> None:
        """Make one that runs functions by `run`, which is `Disk.run`."""
        self._run = run
        self._running = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns: deque[str] = deque()  # addresses that have somebody waiting
        self.waiting_count = 0
        self.refused_count = 0

    async def run(self, host: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function that is called in a thread when it is the address's turn.

        Raises: TooManyLoginsError; what the function raises.
        """
        if self._running >= WIDTH:
            await self._wait(host)
        else:
            self._running += 1
        try:
            result: Result = await self._run(function, *arguments)
            return result
        finally:
            self._pass_on()

    async def _wait(self, host: str) -> None:
        queue = self._waiting.get(host)
        if self.waiting_count >= WAITING_MAX or (queue and len(queue) >= WAITING_OF_ADDRESS_MAX):
            self.refused_count += 1
            raise TooManyLoginsError
        if queue is None:
            queue = self._waiting[host] = deque()
            self._turns.append(host)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.waiting_count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it was its turn
            raise

    def _pass_on(self) -> None:
        """Give the place to the next address's first, or back."""
        while self._turns:
            host = self._turns.popleft()
            queue = self._waiting[host]
            turn = queue.popleft()
            self.waiting_count -= 1
            if queue:
                self._turns.append(host)
            else:
                del self._waiting[host]
            if not turn.done():  # or its connection has ended
                turn.set_result(None)
                return
        self._running -= 1

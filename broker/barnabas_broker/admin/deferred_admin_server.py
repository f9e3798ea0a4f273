"""Starts the admin HTTP late, but not later than somebody may look for it.

Its library takes longer to import than a broker takes to start, so it comes when the broker serves.
A broker that has not got so far in a while (a long recovery, no controller to be found) starts it
all the same: whoever watches the process must see that it lives, and how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from barnabas_broker.admin.admin_server import AdminServer
from barnabas_broker.metrics.loop_lag import LoopLag

START_SECONDS_MAX: Final = 3.0


class DeferredAdminServer:
    """The admin HTTP of one broker, started once."""

    def __init__(
        self,
        admin: AdminServer,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_failure` hears of a port that cannot be bound."""
        self.loop_lag = LoopLag(asyncio.get_running_loop())
        self._admin = admin
        self._spawn = spawn
        self._on_failure = on_failure
        self._is_started = False
        self._timer = asyncio.get_running_loop().call_later(START_SECONDS_MAX, self.start)

    def start(self) -> None:
        """Start it now, unless that was done."""
        self._timer.cancel()
        if not self._is_started:
            self._is_started = True
            self.loop_lag.start()
            self._spawn(self._start())

    async def _start(self) -> None:
        try:
            await self._admin.start()
        except OSError as error:
            self._on_failure(error)

    async def stop(self) -> None:
        """Close it, or do not start it any more."""
        self._timer.cancel()
        self.loop_lag.stop()
        self._is_started = True
        await self._admin.stop()

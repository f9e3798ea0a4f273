"""The connections of the admin HTTP: few, and none that does nothing for long.

Each takes a descriptor, and a broker that has none left cannot open its files. When there are too
many, the one that has been idle for longest makes room, so that a flood of silent ones keeps no
probe out. Wraps the protocol factory of the HTTP library and knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

CONNECTIONS_MAX: Final = 64
IDLE_SECONDS_MAX: Final = 30.0


class AdminConnections:
    """Bounds what a protocol factory makes."""

    def __init__(self, connections_max: int = CONNECTIONS_MAX) -> None:
        self._connections_max = connections_max
        # By age of the last request, oldest first.
        self._idle: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._busy: dict[asyncio.BaseTransport, int] = {}
        self.refused_count = 0

    @property
    def count(self) -> int:
        """Connections open now."""
        return len(self._idle) + len(self._busy)

    def bounded(self, protocol: asyncio.Protocol) -> asyncio.Protocol:
        """The protocol, its connection counted."""
        return _BoundedProtocol(self, protocol)

    def begin(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a request of a connection is being answered."""
        if transport is None:
            return
        timer = self._idle.pop(transport, None)
        if timer is not None:
            timer.cancel()
        self._busy[transport] = self._busy.get(transport, 0) + 1

    def end(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that the answer is made."""
        if transport is None or transport not in self._busy:
            return
        self._busy[transport] -= 1
        if not self._busy[transport]:
            del self._busy[transport]
            self._wait(transport)

    def entered(self, transport: asyncio.BaseTransport) -> None:
        """Count a connection; the one that is idle for longest makes room for one too many."""
        self._wait(transport)
        if self.count > self._connections_max:
            self.refused_count += 1
            self._close(next(iter(self._idle)))  # its own, if all others are busy

    def _wait(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        self._idle[transport] = loop.call_later(IDLE_SECONDS_MAX, self._close, transport)

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self.left(transport)
        abort: Callable[[], None] = getattr(transport, "abort", transport.close)
        abort()

    def left(self, transport: asyncio.BaseTransport) -> None:
        """Count a connection out; nothing, the second time."""
        timer = self._idle.pop(transport, None)
        if timer is not None:
            timer.cancel()
        self._busy.pop(transport, None)


class _BoundedProtocol(asyncio.Protocol):
    """Passes everything on to another protocol, and counts its connection."""

    def __init__(self, connections: AdminConnections, protocol: asyncio.Protocol) -> None:
        self._connections = connections
        self._protocol = protocol
        self._transport: asyncio.BaseTransport | None = None
        self.data_received = protocol.data_received  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._protocol.connection_made(transport)
        self._connections.entered(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.left(cast(asyncio.BaseTransport, self._transport))
        self._protocol.connection_lost(exc)

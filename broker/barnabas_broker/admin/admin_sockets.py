"""The sockets of the admin HTTP: its port, with TLS where it has that, and a Unix socket.

With TLS a connection is accepted in plain and then served with the certificate of that moment, so
that a renewed one needs no new socket (SEC-6). Connections in their handshake are few: the oldest
makes room, so that silent ones keep no probe out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from barnabas_broker.env.network import BoundListener, Network

logger = logging.getLogger(__name__)

BACKLOG: Final = 128
HANDSHAKES_MAX: Final = 32
HANDSHAKE_SECONDS: Final = 10.0
SOCKET_MODE: Final = 0o600

MakeProtocol = Callable[[], asyncio.BaseProtocol]


class TlsPort:
    """A port whose connections are served by TLS."""

    def __init__(self, network: Network, context: Callable[[], ssl.SSLContext]) -> None:
        """`context` gives what the next connection is served with."""
        self._network = network
        self._context = context
        self._bound: BoundListener | None = None
        self._handshakes: dict[asyncio.Task[None], None] = {}  # oldest first
        self.failed_count = 0

    async def start(self, make: MakeProtocol, host: str, port: int) -> int:
        """Bind and accept; returns the port. Raises: OSError."""

        def accepted(connection: socket.socket) -> None:
            if len(self._handshakes) >= HANDSHAKES_MAX:
                self._cut(next(iter(self._handshakes)))
            task = asyncio.get_running_loop().create_task(self._serve(make, connection))
            self._handshakes[task] = None
            task.add_done_callback(partial(self._ended, connection))

        self._bound = await self._network.listen_sockets(accepted, host, port, backlog=BACKLOG)
        return self._bound.port

    def _cut(self, handshake: asyncio.Task[None]) -> None:
        """End one, and count it no more: many may be accepted in a turn, it ends in the next."""
        del self._handshakes[handshake]
        handshake.cancel()

    def _ended(self, connection: socket.socket, handshake: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)
        if handshake.cancelled():  # before it began
            connection.close()

    async def _serve(self, make: MakeProtocol, connection: socket.socket) -> None:
        try:
            await self._network.serve_tls(make, connection, self._context(), HANDSHAKE_SECONDS)
        except (OSError, asyncio.CancelledError) as error:
            self.failed_count += 1
            connection.close()
            logger.debug("no TLS on the admin HTTP: %s", error)

    async def close(self) -> None:
        """Accept no more."""
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.close()
        tasks = list(self._handshakes)
        for task in tasks:
            self._cut(task)
        await asyncio.gather(*tasks, return_exceptions=True)


async def listen_at(make: MakeProtocol, path: str) -> asyncio.Server:
    """Serve on a Unix socket that its owner alone may open.

    A socket that a process before has left is replaced, another file is not.
    Raises: OSError.
    """
    listening = _bound_at(path)
    try:
        return await asyncio.get_running_loop().create_unix_server(make, sock=listening)
    except BaseException:
        listening.close()
        raise


def _bound_at(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(Path(path).lstat().st_mode):
            raise FileExistsError(f"admin.http.socket: {path} is there and is no socket")
        Path(path).unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Nobody can connect before `listen`, so the rights hold from the first connection on.
        listening.bind(path)
        Path(path).chmod(SOCKET_MODE)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening

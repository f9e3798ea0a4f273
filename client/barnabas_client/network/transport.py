"""Bytes between one socket and a receiver of frames: asyncio's part of a connection.

Not here: what the frames mean (`connection.py`), when to connect (`node_connections.py`).

Invariants: the kernel writes straight into the memory that the frames are handed out in, if they
are large; nothing is written before `is_writable`; `closed` is called once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from barnabas_protocol.connection.framing import FrameReceiver
from barnabas_protocol.schema import Buffer

WRITE_HIGH_BYTES: Final = 1024 * 1024
"""Above this the kernel is behind, and callers wait: one large Produce request is on its way."""
_WRITELINES_PAUSES: Final = not (3, 12) <= sys.version_info < (3, 12, 9) and not (
    (3, 13) <= sys.version_info < (3, 13, 2)
)
"""Python's `writelines` did not report full buffers for a while (CVE-2024-12254)."""
ADDRESS_SECONDS: Final = 2.0
"""How long one of several addresses of a name may stay silent."""


class FrameTransport(asyncio.BufferedProtocol):
    """A protocol that fills a receiver; `write` and `abort` lead the other way."""

    def __init__(
        self,
        receiver: FrameReceiver,
        *,
        on_received: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        self.is_writable = False
        self.is_closed = False
        self._receiver = receiver
        self._on_received = on_received
        self._on_writable = on_writable
        self._on_closed = on_closed
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # Transports of uvloop do not derive from asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self.is_writable = True

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give the memory for what arrives next."""
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Have what has arrived looked at."""
        if not self.is_closed:
            self._receiver.received(nbytes)
            self._on_received()

    def pause_writing(self) -> None:
        """Let callers wait: the kernel does not take more."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Let callers go on."""
        if not self.is_closed:
            self.is_writable = True
            self._on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close it from here, too; `exc` is None if the peer closed in order."""
        if not self._lost.done():
            self._lost.set_result(None)
        self._close(exc)

    def write(self, buffers: list[Buffer]) -> None:
        """Send buffers one after the other; they must not change any more."""
        transport = self._transport
        assert transport is not None
        if len(buffers) == 1:
            transport.write(buffers[0])
        elif _WRITELINES_PAUSES:
            transport.writelines(buffers)
        else:
            transport.write(b"".join(buffers))

    def abort(self) -> None:
        """Close at once, without calling `on_closed`."""
        self.is_closed = True
        self.is_writable = False
        if self._transport is not None:
            self._transport.abort()

    async def close(self, timeout_seconds: float) -> None:
        """Close after what was written has left, for as long as the time allows."""
        transport = self._transport
        if transport is None:
            return
        if not self.is_closed:
            self.is_closed = True
            self.is_writable = False
            transport.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await asyncio.shield(self._lost)
        if not self._lost.done():
            transport.abort()
            # The transport reports the loss in the next turn of the loop.
            await asyncio.wait([self._lost], timeout=timeout_seconds)

    def _close(self, error: Exception | None) -> None:
        if self.is_closed:
            return
        self.abort()
        self._on_closed(error)


async def connect_socket(
    host: str, port: int, *, send_buffer_bytes: int, receive_buffer_bytes: int
) -> socket.socket:
    """A connected socket: the addresses of the name are tried one after the other.

    A silent one is given up after `ADDRESS_SECONDS` as long as others are left; the caller bounds
    the whole. Raises: OSError of the last address.
    """
    loop = asyncio.get_running_loop()
    addresses = await _resolve(host, port)
    for index, (family, address) in enumerate(addresses):
        is_last = index == len(addresses) - 1
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            _prepare(opened, send_buffer_bytes, receive_buffer_bytes)
            async with asyncio.timeout(None if is_last else ADDRESS_SECONDS):
                await loop.sock_connect(opened, address)
        except OSError:  # TimeoutError is one too
            opened.close()
            if is_last:
                raise
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise OSError(f"the name {host} has no address")


async def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]  # no thread for what needs no look-up
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _prepare(opened: socket.socket, send_buffer_bytes: int, receive_buffer_bytes: int) -> None:
    # Buffer sizes count for the window only if they are set before connecting.
    if send_buffer_bytes >= 0:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    if receive_buffer_bytes >= 0:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def start_transport(
    protocol: FrameTransport, opened: socket.socket, tls: ssl.SSLContext | None, host: str
) -> None:
    """Run the protocol on a connected socket, with TLS if a context is given.

    Raises: OSError, among them ssl.SSLError, if the TLS handshake fails.
    """
    loop = asyncio.get_running_loop()
    try:
        await loop.create_connection(
            lambda: protocol,
            sock=opened,
            ssl=tls,
            server_hostname=host if tls is not None else None,
        )
    except BaseException:
        protocol.abort()
        opened.close()
        raise

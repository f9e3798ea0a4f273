"""Listening and connecting, behind a protocol so that a simulation can stand in for sockets.

Carries bytes through asyncio transports and protocols; knows nothing of frames or limits.
"""

import asyncio
import errno
import logging
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from barnabas_broker.env.tls_alerts import send_alert

P = TypeVar("P", bound=asyncio.BaseProtocol)
LISTEN_BACKLOG = 50  # Kafka's socket.listen.backlog.size
ACCEPTED_AT_ONCE = 64
"""Connections that are accepted in one turn; the others wait in the backlog."""
NO_DESCRIPTORS_SECONDS = 1.0
"""Nothing is accepted for so long where the process has no descriptor left."""
_NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
TLS_SHUTDOWN_SECONDS = 5.0
"""A peer that does not end TLS in order within this is cut off."""

_log = logging.getLogger(__name__)


class BoundListener(Protocol):
    """A bound, accepting socket."""

    @property
    def port(self) -> int:
        """The port that is bound, also where 0 was given."""
        ...

    def close(self) -> None:
        """Stop accepting; connections that exist stay open."""
        ...

    async def wait_closed(self) -> None:
        """Return once the listening socket is closed."""
        ...


class Network(Protocol):
    """Makes listeners and connections on the running loop."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> BoundListener:
        """Bind and accept; an empty host means every interface.

        Raises: OSError where the address cannot be bound.
        """
        ...

    async def listen_sockets(
        self,
        accepted: Callable[[socket.socket], None],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> BoundListener:
        """Bind, and hand over the sockets of connections as they come, before a byte is read.

        Raises: OSError where the address cannot be bound.
        """
        ...

    async def serve_tls(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        accepted: socket.socket,
        context: ssl.SSLContext,
        handshake_seconds: float,
    ) -> None:
        """Make the handshake on an accepted socket; the protocol is connected when it is over.

        Raises: ssl.SSLError, or another OSError where the peer goes or takes too long. The socket
        is closed then.
        """
        ...

    async def serve_plaintext(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], accepted: socket.socket
    ) -> None:
        """Connect a protocol to an accepted socket as it is.

        Raises: OSError where the peer has gone. The socket is closed then.
        """
        ...

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection; with a context one of TLS, by the name that is dialled.

        Raises: ConnectionRefusedError where nobody listens, another OSError where the machine does
        not respond or TLS fails.
        """
        ...

    async def canonical_host_name(self) -> str:
        """The full name of this machine. Raises: OSError where its host name has no address."""
        ...


class RealListener:
    """A listener on operating system sockets."""

    __slots__ = ("_port", "_server")

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._port = int(server.sockets[0].getsockname()[1])

    @property
    def port(self) -> int:
        """The port that is bound."""
        return self._port

    def close(self) -> None:
        """Stop accepting; connections that exist stay open."""
        self._server.close()

    async def wait_closed(self) -> None:
        """Return at once: closing the sockets needs no waiting.

        `asyncio.Server.wait_closed` would also wait for every connection that was accepted, which
        from Python 3.12 on never ends while a client stays.
        """
        await asyncio.sleep(0)


class AcceptingSockets:
    """Listening sockets whose connections are handed over as sockets."""

    __slots__ = ("_accepted", "_loop", "_sockets")

    def __init__(
        self, sockets: Sequence[socket.socket], accepted: Callable[[socket.socket], None]
    ) -> None:
        self._sockets = list(sockets)
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._sockets[0].getsockname()[1])

    def close(self) -> None:
        """Stop accepting; connections that exist stay open."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets.clear()

    async def wait_closed(self) -> None:
        """Return at once: closing the sockets needs no waiting."""
        await asyncio.sleep(0)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                _log.error("no connection can be accepted: %s", error)
                self._loop.remove_reader(listening)
                self._loop.call_later(NO_DESCRIPTORS_SECONDS, self._accept_again, listening)
                return
            accepted.setblocking(False)
            self._accepted(accepted)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)


_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH}


def _is_refused_at_every_address(text: str) -> bool:
    """Whether asyncio's one error for a name with several addresses says so.

    An address of a family that this machine does not speak (::1 of localhost) does not count.
    """
    numbers = {int(number) for number in re.findall(r"\[Errno (\d+)\]", text)}
    return errno.ECONNREFUSED in numbers and numbers <= {errno.ECONNREFUSED, *_NO_SUCH_FAMILY}


class RealNetwork:
    """Sockets of the operating system, on the running loop."""

    __slots__ = ()

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> RealListener:
        """Bind and accept; an empty host means every interface.

        Raises: OSError where the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            protocol_factory, host or None, port, backlog=backlog, reuse_address=True
        )
        return RealListener(server)

    async def listen_sockets(
        self,
        accepted: Callable[[socket.socket], None],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> AcceptingSockets:
        """Bind, and hand over sockets; an empty host means every interface.

        Raises: OSError where the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                try:
                    listening = socket.socket(family, kind, protocol)
                except OSError:
                    continue  # a family that this machine does not speak
                sockets.append(listening)
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                # All addresses at the port that the first one got.
                bound_port = sockets[0].getsockname()[1] if len(sockets) > 1 else address[1]
                listening.bind((address[0], bound_port, *address[2:]))
                listening.listen(backlog)
            if not sockets:
                raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
            return AcceptingSockets(sockets, accepted)
        except OSError:
            for listening in sockets:
                listening.close()
            raise

    async def serve_tls(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        accepted: socket.socket,
        context: ssl.SSLContext,
        handshake_seconds: float,
    ) -> None:
        """Make the handshake on an accepted socket; a peer that is refused gets an alert.

        Raises: ssl.SSLError, or another OSError where the peer goes or takes too long.
        """
        loop = asyncio.get_running_loop()
        # The loop closes the socket of a handshake that fails before an alert is sent.
        with accepted.dup() as spare:
            try:
                await loop.connect_accepted_socket(
                    protocol_factory,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=handshake_seconds,
                    ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
                )
            except ssl.SSLError as error:
                send_alert(error, spare)
                raise

    async def serve_plaintext(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], accepted: socket.socket
    ) -> None:
        """Connect a protocol to an accepted socket. Raises: OSError where the peer has gone."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(protocol_factory, accepted)
        except OSError:
            accepted.close()
            raise

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection with TCP_NODELAY.

        Raises: ConnectionRefusedError where nobody listens, another OSError where the machine does
        not respond or TLS fails.
        """
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if context is not None:
            options = {
                "ssl": context,
                "server_hostname": host,
                "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS,
            }
        try:
            transport, protocol = await loop.create_connection(
                protocol_factory, host, port, **options
            )
        except OSError as error:
            if error.errno is None and _is_refused_at_every_address(str(error)):
                raise ConnectionRefusedError(errno.ECONNREFUSED, str(error)) from error
            raise
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol

    async def canonical_host_name(self) -> str:
        """What the address of this machine's host name is called; the host name where it is not.

        Raises: OSError where the host name has no address.
        """
        loop = asyncio.get_running_loop()
        name = socket.gethostname()
        try:
            found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror or error}") from error
        try:
            address = str(found[0][4][0])
            canonical, _ = await loop.getnameinfo((address, 0), socket.NI_NAMEREQD)
        except OSError:
            return name
        return canonical

"""Listening and connecting, behind a protocol so that a simulation can stand in for sockets.

Carries bytes through asyncio transports and protocols; knows nothing of frames or limits.
"""

import asyncio
import errno
import re
import socket
from collections.abc import Callable
from typing import Protocol, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)
LISTEN_BACKLOG = 50  # Kafka's socket.listen.backlog.size


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

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection.

        Raises: ConnectionRefusedError where nobody listens, another OSError where the machine does
        not respond.
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

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection with TCP_NODELAY.

        Raises: ConnectionRefusedError where nobody listens, another OSError where the machine does
        not respond.
        """
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.create_connection(protocol_factory, host, port)
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

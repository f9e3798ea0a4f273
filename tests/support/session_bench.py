"""A listener with nothing behind it but a test, and a client that speaks bare frames."""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from typing import Any, cast

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import Network
from barnabas_broker.network.connection_limits import ConnectionLimits
from barnabas_broker.network.listener import Listener
from barnabas_broker.network.network_metrics import NetworkMetrics
from barnabas_broker.network.request_memory import RequestMemory
from barnabas_broker.network.session import InFlightRequest, Session, SessionSettings
from barnabas_broker.replication.turn import Turn
from barnabas_protocol.connection.framing import SharedBuffer
from tests.support.simulated_network import SimulatedNetwork
from tests.support.virtual_loop import VirtualClock

WAIT_SECONDS = 30


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


class Client(asyncio.Protocol):
    """Sends bytes, and cuts answers out of what comes back."""

    def __init__(self) -> None:
        self.transport = cast(asyncio.Transport, None)
        self.data = bytearray()
        self.is_closed = False
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_closed = True
        self._changed.set()

    def send(self, *frames: bytes) -> None:
        self.transport.write(framed(*frames))

    async def answer(self) -> bytes:
        """The next answer."""
        return (await self.answers(1))[0]

    async def answers(self, count: int) -> list[bytes]:
        answers: list[bytes] = []
        while len(answers) < count:
            await self.until(lambda: len(self.data) >= 4)
            (size,) = struct.unpack_from(">i", self.data)
            await self.until(lambda size=size: len(self.data) >= 4 + size)  # type: ignore[misc]
            answers.append(bytes(self.data[4 : 4 + size]))
            del self.data[: 4 + size]
        return answers

    async def closed(self) -> None:
        await self.until(lambda: self.is_closed)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():
                if self.is_closed:
                    raise ConnectionError("the connection is closed")
                self._changed.clear()
                await self._changed.wait()


class Bench:
    """Everything a listener needs, open to tests; `dispatch` echoes unless a test replaces it."""

    def __init__(
        self,
        network: Network | None = None,
        clock: Clock | None = None,
        *,
        memory_bytes: int = -1,
        limits: ConnectionLimits | None = None,
        **options: Any,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.network = network or SimulatedNetwork()
        self.turn = Turn(loop)
        self.memory = RequestMemory(memory_bytes)
        self.metrics = NetworkMetrics()
        self.in_flight_requests: list[InFlightRequest] = []
        self.dispatch: Callable[[InFlightRequest], None] = self.echo
        self.clients: list[Client] = []
        connections_max = options.pop("connections_max", 1_000_000)
        of_security = {
            name: options.pop(name)
            for name in ("tls", "handshakes", "security_protocol", "login")
            if name in options
        }
        self.listener = Listener(
            name="PLAINTEXT",
            host="127.0.0.1",
            port=0,
            network=self.network,
            loop=loop,
            turn=self.turn,
            clock=clock or VirtualClock(loop),
            dispatch=lambda in_flight: self.dispatch(in_flight),
            settings=SessionSettings(**options),
            limits=limits or ConnectionLimits(),
            memory=self.memory,
            metrics=self.metrics,
            shared_buffer=SharedBuffer(),
            connections_max=connections_max,
            **of_security,
        )

    async def __aenter__(self) -> "Bench":
        await self.listener.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        for client in self.clients:
            client.transport.abort()
        await self.listener.close(1_000)
        for client in self.clients:
            with contextlib.suppress(ConnectionError):
                await client.closed()
        assert self.metrics.connections_open == 0
        assert self.memory.used_bytes == 0
        assert self.memory.request_count == 0
        assert not self.memory.waiting
        assert self.memory.favoured is None

    def echo(self, in_flight: InFlightRequest) -> None:
        in_flight.reply([bytes(in_flight.frame)])

    def collect(self, in_flight: InFlightRequest) -> None:
        """A dispatch that leaves answering to the test."""
        self.in_flight_requests.append(in_flight)

    async def connect(self, **options: Any) -> Client:
        _, client = await self.network.connect(Client, "127.0.0.1", self.listener.port, **options)
        self.clients.append(client)
        return client

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the loop run until something holds."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds():
                await asyncio.sleep(0.001)

    @property
    def session(self) -> Session:
        """The only one."""
        (session,) = self.listener.sessions
        return session

"""Connections within one process: bytes move in turns of the loop, and links can be cut.

A transport of each side hands the other's protocol what was written, in one piece or in small ones
(`piece_bytes_max`), and pauses a writer whose peer does not read. Works on any loop, virtual time
included. It has no TLS and no half-closed connections: an end of file closes both directions.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)
FIRST_FREE_PORT = 20_000


class SimulatedTransport(asyncio.Transport):
    """One side of a connection."""

    def __init__(self, network: "SimulatedNetwork", own: Any, peer: Any) -> None:
        super().__init__({"sockname": own, "peername": peer})
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.BaseProtocol | None = None
        self._other: SimulatedTransport | None = None
        self._waiting: deque[bytes] = deque()  # written by the other side, not yet delivered
        self._waiting_bytes = 0
        self._is_reading = True
        self._is_delivering = False
        self._is_closing = False
        self._is_lost = False
        self._has_paused_writer = False
        self._high, self._low = 64 * 1024, 16 * 1024

    def join(self, other: "SimulatedTransport", protocol: asyncio.BaseProtocol) -> None:
        self._other = other
        self._protocol = protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    # Writing.

    def write(self, data: Any) -> None:
        other = self._other
        if self._is_closing or other is None or not len(data):
            return
        other._waiting_bytes += len(data)
        self._pass_on(other, bytes(data))
        if not self._has_paused_writer and other._waiting_bytes > self._high:
            self._has_paused_writer = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def _pass_on(self, other: "SimulatedTransport", data: bytes) -> None:
        other._waiting.append(data)
        other._deliver_soon()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0 if self._other is None else self._other._waiting_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def can_write_eof(self) -> bool:
        return False

    # Reading.

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._deliver_soon()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def _deliver_soon(self) -> None:
        if not self._is_delivering and not self._is_lost:
            self._is_delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        while self._waiting and self._is_reading and not self._is_closing:
            if not self._network.is_connected(self):
                return
            piece = self._take(self._network.piece_bytes_max)
            self._hand_over(piece)
        if not self._waiting and self._other is not None and self._other._is_closing:
            self._peer_has_closed()
        elif self._is_closing:
            self._waiting.clear()

    def _take(self, size: int) -> bytes:
        data = self._waiting.popleft()
        if len(data) > size:
            self._waiting.appendleft(data[size:])
            data = data[:size]
        self._waiting_bytes -= len(data)
        other = self._other
        if other is not None and other._has_paused_writer and self._waiting_bytes <= other._low:
            other._has_paused_writer = False
            if other._protocol is not None:
                other._protocol.resume_writing()
        return data

    def _hand_over(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            while data and not self._is_closing:
                target = memoryview(protocol.get_buffer(len(data)))  # type: ignore[arg-type]
                count = min(len(target), len(data))
                target[:count] = data[:count]
                protocol.buffer_updated(count)
                data = data[count:]
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)

    # Closing.

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close after what was written has been delivered."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._other is not None:
            self._other._deliver_soon()
        self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """Close at once on both sides; what is on the way is lost."""
        self._is_closing = True
        self._loop.call_soon(self._lose, None)
        other = self._other
        if other is not None and not other._is_closing:
            other._is_closing = True
            other._waiting.clear()
            self._loop.call_soon(other._lose, ConnectionResetError("reset by the peer"))

    def _peer_has_closed(self) -> None:
        if not self._is_closing and isinstance(
            self._protocol, asyncio.Protocol | asyncio.BufferedProtocol
        ):
            self._protocol.eof_received()
            self.close()

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        protocol, self._protocol = self._protocol, None
        self._network.transports.discard(self)
        if protocol is not None:
            protocol.connection_lost(error)


class SimulatedListener:
    """An address of a simulated network that accepts."""

    def __init__(self, network: "SimulatedNetwork", host: str, port: int) -> None:
        self._network = network
        self._address = (host, port)

    @property
    def port(self) -> int:
        return self._address[1]

    def close(self) -> None:
        self._network.factories.pop(self._address, None)

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class SimulatedNetwork:
    """All listeners and connections of a simulation; one object may serve many nodes."""

    def __init__(self, piece_bytes_max: int = 1 << 30) -> None:
        self.piece_bytes_max = piece_bytes_max
        self.factories: dict[tuple[str, int], Callable[[], asyncio.BaseProtocol]] = {}
        self.transports: set[SimulatedTransport] = set()
        self._cut: set[frozenset[str]] = set()
        self._next_port = FIRST_FREE_PORT

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = 50,
    ) -> SimulatedListener:
        port = port or self._free_port()
        if (host, port) in self.factories:
            raise OSError(98, "the address is in use")
        self.factories[host, port] = protocol_factory
        return SimulatedListener(self, host, port)

    async def canonical_host_name(self) -> str:
        return "127.0.0.1"

    async def connect(
        self,
        protocol_factory: Callable[[], P],
        host: str,
        port: int,
        *,
        from_host: str = "127.0.0.1",
    ) -> tuple[asyncio.Transport, P]:
        await asyncio.sleep(0)
        accept = self.factories.get((host, port)) or self.factories.get(("", port))
        if accept is None or frozenset((from_host, host)) in self._cut:
            raise ConnectionRefusedError(111, "nobody listens")
        own, peer = (from_host, self._free_port()), (host, port)
        near, far = SimulatedTransport(self, own, peer), SimulatedTransport(self, peer, own)
        self.transports |= {near, far}
        protocol, accepted = protocol_factory(), accept()
        near.join(far, protocol)
        far.join(near, accepted)
        accepted.connection_made(far)
        protocol.connection_made(near)
        return near, protocol

    def cut(self, host: str, other: str) -> None:
        """Lose every byte between two hosts until `heal`: they wait, and nobody is told."""
        self._cut.add(frozenset((host, other)))

    def heal(self) -> None:
        """Undo every `cut`; what was on the way arrives."""
        self._cut.clear()
        for transport in self.transports:
            transport._deliver_soon()

    def is_connected(self, transport: SimulatedTransport) -> bool:
        own, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        return frozenset((own[0], peer[0])) not in self._cut

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

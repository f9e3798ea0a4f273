"""Nodes for tests of outbound connections: each answers frames as its script says."""

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

from barnabas_broker.env.network import BoundListener, Network
from barnabas_protocol import codec

WAIT_SECONDS = 30


class NodeConnection(asyncio.Protocol):
    """One accepted connection of a node."""

    def __init__(self, node: "PeerNode") -> None:
        self.node = node
        self.transport = cast(asyncio.Transport, None)
        self.data = bytearray()
        self.is_lost = False
        node.connections.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        while len(self.data) >= 4:
            (size,) = struct.unpack_from(">i", self.data)
            if len(self.data) < 4 + size:
                break
            frame = bytes(self.data[4 : 4 + size])
            del self.data[: 4 + size]
            self.node.take(self, frame)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_lost = True

    def send_frame(self, frame: bytes) -> None:
        self.transport.write(struct.pack(">i", len(frame)) + frame)


class Asked:
    """A request that has come, to be answered by the test or by the node's script."""

    def __init__(self, connection: NodeConnection, frame: bytes) -> None:
        self.connection = connection
        self.header = codec.read_request_header(frame)
        kind = codec.request_class(self.header.api_key)
        version = self.header.api_version
        self.message: Any = codec.decode(kind, frame, version, self.header.position)[0]

    def encoded(self, response: Any) -> bytes:
        header = self.header
        return codec.encode_response(
            response, header.api_key, header.api_version, header.correlation_id
        )

    def answer(self, response: Any) -> None:
        self.connection.send_frame(self.encoded(response))


class PeerNode:
    """Listens, keeps what was asked, and answers by `script` if there is one."""

    def __init__(self, network: Network, host: str = "127.0.0.1") -> None:
        self.network = network
        self.host = host
        self.port = 0
        self.asked: list[Asked] = []
        self.connections: list[NodeConnection] = []
        self.script: Callable[[Asked], Any] | None = None
        self._listener: BoundListener | None = None

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    async def start(self) -> None:
        self._listener = await self.network.listen(
            lambda: NodeConnection(self), self.host, self.port
        )
        self.port = self._listener.port

    def stop_listening(self) -> None:
        assert self._listener is not None
        self._listener.close()

    def take(self, connection: NodeConnection, frame: bytes) -> None:
        asked = Asked(connection, frame)
        self.asked.append(asked)
        if self.script is not None:
            response = self.script(asked)
            if response is not None:
                asked.answer(response)

    def drop_connections(self) -> None:
        for connection in self.connections:
            if connection.transport is not None and not connection.is_lost:
                connection.transport.abort()

    async def stop(self) -> None:
        self.stop_listening()
        self.drop_connections()
        await until(lambda: all(c.is_lost or c.transport is None for c in self.connections))


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop run until something holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not holds():
            await asyncio.sleep(0.001)


async def stop_all(nodes: Iterable[PeerNode]) -> None:
    for node in nodes:
        await node.stop()

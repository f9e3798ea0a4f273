"""A broker on loopback that does what a test tells it: late, wrong, half or no answers.

It answers ApiVersions and Metadata by itself, unless the script has something for that API.
"""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from barnabas_protocol.schema import Message

SILENCE = object()
"""Answer nothing and go on reading."""
FRAME_BYTES_MAX = 100_000_000
CLOSE = object()
"""Close the connection."""
_CLOSE_SECONDS = 1.0


class Received:
    """One request as it came."""

    def __init__(self, connection: "ScriptedConnection", frame: bytes) -> None:
        self.connection = connection
        self.header = codec.read_request_header(frame)
        self.api = ApiKey(self.header.api_key)
        self.version = self.header.api_version
        self.message: Any = None
        if KNOWN[self.api][0] <= self.version <= KNOWN[self.api][1]:
            kind = codec.request_class(self.api)
            self.message, _ = codec.decode(kind, frame, self.version, self.header.position)


class ScriptedConnection:
    """One accepted connection, for scripts that want to write by themselves."""

    def __init__(self, number: int, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)

    def answer(self, received: Received, message: Message) -> None:
        """Write the answer to a request, perhaps one that came earlier."""
        header = received.header
        frame = codec.encode_response(
            message, header.api_key, header.api_version, header.correlation_id
        )
        self.send(struct.pack(">i", len(frame)) + frame)


Answering = Callable[[Received], object]


class ScriptedBroker:
    """One node; `script` maps an API to a function that returns the answer, SILENCE or CLOSE."""

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.port = 0
        self.script: dict[ApiKey, Answering] = {}
        self.versions: dict[ApiKey, tuple[int, int]] = dict(KNOWN)
        self.nodes: list[ScriptedBroker] = [self]
        self.topics: Sequence[MetadataResponseTopic] = ()
        self.controller_id = node_id
        self.cluster_id = "scripted"
        self.received: list[Received] = []
        self.connections: list[ScriptedConnection] = []
        self.reading = asyncio.Event()
        """Cleared, nothing is read any more, so that the kernel's buffers fill."""
        self.reading.set()
        self._server: asyncio.Server | None = None

    @property
    def bootstrap(self) -> str:
        """The address."""
        return f"127.0.0.1:{self.port}"

    def count(self, api: ApiKey) -> int:
        """How many requests of an API have come."""
        return sum(1 for received in self.received if received.api is api)

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen, on the same port as before if it was stopped."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for connection in self.connections:
            connection.writer.close()
        for connection in self.connections:
            # What a peer does not read would hold the end up for ever.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await connection.writer.wait_closed()
            connection.writer.transport.abort()
        await server.wait_closed()
        # Who was accepted meanwhile is turned away: accepting, connecting, serving and the end of
        # the transport take a turn of the loop each.
        for _ in range(10):
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            writer.transport.abort()
            return
        connection = ScriptedConnection(len(self.connections), writer)
        self.connections.append(connection)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await self.reading.wait()
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if size > FRAME_BYTES_MAX:
                    break
                received = Received(connection, await reader.readexactly(size))
                self.received.append(received)
                answer = self._answer(received)
                if answer is CLOSE:
                    break
                if isinstance(answer, bytes):
                    connection.send(answer)
                elif isinstance(answer, Message):
                    connection.answer(received, answer)
                await writer.drain()
        writer.close()

    def _answer(self, received: Received) -> object:
        scripted = self.script.get(received.api)
        if scripted is not None:
            return scripted(received)
        if received.api is ApiKey.API_VERSIONS:
            return self.api_versions()
        if received.api is ApiKey.METADATA:
            return self.metadata()
        raise AssertionError(f"no script for {received.api.name}")

    def api_versions(self) -> ApiVersionsResponse:
        """What this broker serves."""
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
        )

    def metadata(self) -> MetadataResponse:
        """The cluster as this broker sees it."""
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.node_id, host="127.0.0.1", port=node.port)
                for node in self.nodes
            ],
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            topics=list(self.topics),
        )


@asynccontextmanager
async def scripted_brokers(count: int = 1) -> AsyncIterator[list[ScriptedBroker]]:
    """Some brokers that know of each other, numbered from 1."""
    brokers = [ScriptedBroker(number) for number in range(1, count + 1)]
    for broker in brokers:
        broker.nodes = brokers
        broker.controller_id = 1
        await broker.start()
    try:
        yield brokers
    finally:
        for broker in brokers:
            await broker.stop()

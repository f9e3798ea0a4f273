"""What is attacked: where the brokers listen, and connections that send whatever they like."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey

DATA_TOPIC = "attacked"
COMPACTED_TOPIC = "attacked-compacted"
ANSWER_SECONDS_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Of one broker."""

    port: int
    admin_port: int
    tls_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The brokers, and how long and how hard each attack is to be."""

    brokers: Sequence[Address]
    seconds: float
    is_quick: bool
    seed: int
    topic_id: bytes = bytes(16)

    @property
    def ports(self) -> list[int]:
        """Where clients connect."""
        return [broker.port for broker in self.brokers]


def framed(key: ApiKey, version: int, request: Any) -> bytes:
    """A request with its size in front."""
    frame = codec.encode_request(request, key, version, 1, "attacker")
    return struct.pack(">i", len(frame)) + frame


class Connection:
    """Sends what it is told, and does not mind being cut off."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Without waiting."""
        self.writer.write(data)

    async def sent(self) -> bool:
        """Wait until it has left; returns False where the broker has ended the connection."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self.writer.drain()
        except (TimeoutError, OSError):
            return False
        return True

    async def answer(self, seconds: float = ANSWER_SECONDS_MAX) -> bytes | None:
        """The next answer; None where the connection ends or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                (size,) = struct.unpack(">i", await self.reader.readexactly(4))
                return await self.reader.readexactly(size)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            return None

    async def call(self, key: ApiKey, version: int, request: Any) -> Any:
        """The response; None where there is none."""
        self.send(framed(key, version, request))
        frame = await self.answer() if await self.sent() else None
        return None if frame is None else codec.decode_response(frame, key, version)[1]


@asynccontextmanager
async def connections(port: int, count: int = 1) -> AsyncIterator[list[Connection]]:
    """As many connections as the broker takes; aborted at the end."""
    opened: list[Connection] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError):
                opened.append(Connection(*await asyncio.open_connection("127.0.0.1", port)))
        yield opened
    finally:
        for connection in opened:
            connection.writer.transport.abort()

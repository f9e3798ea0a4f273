"""A gateway for TLSRoutes as far as tests want one: passes connections on by their SNI, and sees
nothing of what is in them."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Mapping

HANDSHAKE, CLIENT_HELLO, SERVER_NAME = 22, 1, 0
READ_BYTES = 1 << 16


@contextlib.asynccontextmanager
async def sni_gateway(backends: Mapping[str, tuple[str, int]]) -> AsyncIterator[int]:
    """The port of a gateway that knows these hosts."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            header = await reader.readexactly(5)
            body = await reader.readexactly(struct.unpack(">H", header[3:])[0])
            backend = backends.get(server_name(header + body))
            if backend is None:
                return
            inner_reader, inner_writer = await asyncio.open_connection(*backend)
            with contextlib.closing(inner_writer):
                inner_writer.write(header + body)
                await asyncio.gather(copied(reader, inner_writer), copied(inner_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on until one side ends."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


def server_name(record: bytes) -> str:
    """The host that a ClientHello asks for, empty where it names none."""
    if record[0] != HANDSHAKE or record[5] != CLIENT_HELLO:
        return ""
    at = 5 + 4 + 2 + 32
    at += 1 + record[at]
    at += 2 + int.from_bytes(record[at : at + 2], "big")
    at += 1 + record[at]
    end = at + 2 + int.from_bytes(record[at : at + 2], "big")
    at += 2
    while at < end:
        kind, size = struct.unpack(">HH", record[at : at + 4])
        at += 4
        if kind == SERVER_NAME:
            # A list with one name: its length, the name's type and the name's length.
            return record[at + 5 : at + size].decode()
        at += size
    return ""

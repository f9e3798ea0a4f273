"""A client that sends just what it is told, for tests: no retries, no pools, every version."""

import asyncio
import contextlib
import ssl
import struct
from typing import Any, Self

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey

ANSWER_SECONDS_MAX = 20


class RawClient:
    """One connection; requests are answered in order."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client_id: str = "raw-client",
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0

    @classmethod
    async def connect(
        cls,
        port: int,
        host: str = "127.0.0.1",
        *,
        client_id: str = "raw-client",
        from_host: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        local = None if from_host is None else (from_host, 0)
        opened = await asyncio.open_connection(host, port, local_addr=local, ssl=tls)
        return cls(*opened, client_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def send(self, key: ApiKey, version: int, request: Any) -> int:
        """Send without waiting; returns the correlation id."""
        self._correlation_id += 1
        frame = codec.encode_request(request, key, version, self._correlation_id, self._client_id)
        self._writer.write(struct.pack(">I", len(frame)) + frame)
        return self._correlation_id

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self, key: ApiKey, version: int) -> Any:
        """The next answer, which must be the one to the oldest request."""
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            (size,) = struct.unpack(">I", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size)
        correlation_id, response = codec.decode_response(frame, key, version)
        self.last_correlation_id = correlation_id
        return response

    async def call(self, key: ApiKey, version: int, request: Any) -> Any:
        sent = self.send(key, version, request)
        response = await self.receive(key, version)
        assert self.last_correlation_id == sent
        return response

    async def is_closed_by_peer(self) -> bool:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

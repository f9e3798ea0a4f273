"""Requests of a test for a server of the admin port."""

import asyncio

from barnabas_broker.admin.admin_server import AdminServer

WAIT_SECONDS = 20


async def get(
    server: AdminServer, path: str, method: str = "GET", host: str = "localhost"
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body."""
    async with asyncio.timeout(WAIT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(first.split()[1]), headers, body

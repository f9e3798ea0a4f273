"""A whole cluster inside the test's own loop, with a file as arbiter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas_broker.server import Server

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def broker(directory: Path, node_id: int, **properties: str) -> Server:
    return Server(
        {
            "node.id": str(node_id),
            "cluster.id": CLUSTER_ID,
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory / str(node_id)),
            "arbiter.file.path": str(directory / "arbiter"),
            "admin.http.port": "-1",
            # Who leaves says so; nobody finds it out.
            "broker.fence.on.refused.ms": "600000",
            **properties,
        }
    )


@asynccontextmanager
async def running_cluster(
    directory: Path, count: int = 3, **properties: str
) -> AsyncIterator[list[Server]]:
    """Brokers in this loop, with a file as arbiter."""
    servers = [broker(directory, node_id, **properties) for node_id in range(count)]
    await asyncio.gather(*(server.start() for server in servers))
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()


def controller_of(servers: list[Server]) -> Server:
    (active,) = [server for server in servers if server.control.controller.is_active]
    return active

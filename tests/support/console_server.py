"""A console inside the test's own loop, asked as its page asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from barnabas_client.env import Clock
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.server import make_app
from barnabas_console.settings import ConsoleSettings

OWN = {"X-Barnabas-Console": "1"}
NOBODY = "127.0.0.1:9"  # no broker listens at the port of "discard"


@asynccontextmanager
async def running_console(
    bootstrap: str = NOBODY,
    *,
    timeout_ms: int = 10_000,
    clock: Clock | None = None,
    client_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[TestClient[Any, Any]]:
    """A client of a console on a free port; without `bootstrap` its cluster is not there."""
    connection = ClusterConnection(
        bootstrap_servers=bootstrap,
        principal="User:ANONYMOUS",
        timeout_ms=timeout_ms,
        settings=client_settings or {},
    )
    app = make_app(ConsoleSettings(**settings), connection, clock=clock)
    async with TestClient(TestServer(app)) as client:
        yield client


async def told(client: TestClient[Any, Any], path: str, status: int = 200) -> dict[str, Any]:
    """What a call of the API answers."""
    async with client.get(f"/api/v1{path}", headers=OWN) as response:
        found: dict[str, Any] = await response.json()
        assert response.status == status, found
        return found

"""A whole broker inside the test's own loop, on a free port of the loopback address."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from barnabas_broker.security.authorizer import Authorizer
from barnabas_broker.server import Server

DEADLINE_SECONDS = 20


@asynccontextmanager
async def running_broker(
    directory: Path, authorizer: Authorizer | None = None, **properties: str
) -> AsyncIterator[Server]:
    """Start a broker on the directory and stop it cleanly; `a_b` stands for the property `a.b`."""
    server = broker_on(directory, authorizer, **properties)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def broker_on(directory: Path, authorizer: Authorizer | None = None, **properties: str) -> Server:
    """A broker that is not started yet."""
    return Server(
        {
            "node.id": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
            "log.dirs": str(directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Any free port: other suites and brokers may run beside this one.
            "admin.http.port": "0",
            **{key.replace("_", "."): value for key, value in properties.items()},
        },
        authorizer=authorizer,
    )


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds; fail after the deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.01)

"""Clients of one principal, and that none outlives it (`viewer`)."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas_client.env import SystemClock
from barnabas_client.errors import BrokerUnreachableError, ClosedError
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.viewer import Viewer
from tests.support.in_process_broker import eventually


class StartingClient:
    """A client whose start takes until it is told; then it fails, if it is to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.goes_on = asyncio.Event()
        self.is_starting = self.is_closed = False
        self._failure = failure

    async def start(self) -> None:
        self.is_starting = True
        await self.goes_on.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        self.is_closed = True


class StartingConnection:
    """A connection that hands out the clients it was given."""

    principal = "User:alice"

    def __init__(self, *clients: StartingClient) -> None:
        self._clients = iter(clients)

    def admin(self, **_: Any) -> StartingClient:
        return next(self._clients)

    producer = consumer = admin


def viewer_of(*clients: StartingClient) -> Viewer:
    return Viewer(cast("ClusterConnection", StartingConnection(*clients)), SystemClock())


async def until(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await eventually(holds)


@pytest.mark.parametrize("start", [Viewer.ready, Viewer.producer])
def test_a_client_that_is_starting_is_closed_with_its_viewer(start: Callable[..., Any]) -> None:
    """CON-141: else it went on with the credentials of a session that had ended."""

    async def run() -> None:
        client = StartingClient()
        viewer = viewer_of(client, StartingClient())
        request = asyncio.ensure_future(start(viewer))
        await until(lambda: client.is_starting)
        await viewer.close()
        assert client.is_closed
        with pytest.raises(asyncio.CancelledError):
            await request
        with pytest.raises(ClosedError):
            await start(viewer)

    asyncio.run(run())


@pytest.mark.parametrize("start", [Viewer.ready, Viewer.producer, Viewer.consumer])
def test_a_start_that_fails_is_closed_and_tried_again(start: Callable[..., Any]) -> None:
    """A broker may be away for a moment; what was begun is not left behind each time."""

    async def run() -> None:
        failing = StartingClient(BrokerUnreachableError("nobody is there"))
        working = StartingClient()
        failing.goes_on.set()
        working.goes_on.set()
        viewer = viewer_of(failing, working)
        with pytest.raises(BrokerUnreachableError):
            await start(viewer)
        assert failing.is_closed
        started = await start(viewer)
        assert working.is_starting
        assert not working.is_closed
        assert started in (None, working)
        await viewer.close()

    asyncio.run(run())


def test_all_that_ask_share_one_producer() -> None:
    async def run() -> None:
        client = StartingClient()
        viewer = viewer_of(client)
        requests = [asyncio.ensure_future(viewer.producer()) for _ in range(3)]
        await until(lambda: client.is_starting)
        client.goes_on.set()
        assert len({id(one) for one in await asyncio.gather(*requests)}) == 1
        await viewer.close()
        assert client.is_closed

    asyncio.run(run())

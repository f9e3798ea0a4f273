"""Events are told once."""

import asyncio
from typing import Any

from barnabas_operator.kubernetes.api import ForbiddenError, UnavailableError
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import EVENT
from tests.support.store_api import StoreApi

TOPIC: dict[str, Any] = {
    "apiVersion": "barnabas.dev/v1alpha1",
    "kind": "Topic",
    "metadata": {"namespace": "default", "name": "orders", "uid": "1"},
}


def test_the_same_event_is_told_once_also_by_the_next_operator() -> None:
    """operator.md 7, pitfall 15: events of every pass would flood the API server."""

    async def run() -> None:
        api = StoreApi()
        for events in (Events(api), Events(api)):
            for _ in range(3):
                await events.emit(TOPIC, "Changed", "grown")
        assert len(api.store.objects[EVENT]) == 1
        # The memory has saved the other requests, and the second operator has only read.
        assert api.calls == ["get", "create", "get"]
        await Events(api).emit(TOPIC, "Changed", "grown", occasion="2")
        await Events(api).emit(TOPIC, "Changed", "grown", type_="Warning")
        assert len(api.store.objects[EVENT]) == 3
        found = next(iter(api.store.objects[EVENT].values()))
        assert found["involvedObject"]["uid"] == "1"
        assert (found["reason"], found["message"], found["count"]) == ("Changed", "grown", 1)

    asyncio.run(run())


def test_an_event_that_is_refused_stops_nothing() -> None:
    """In a namespace that is being deleted nothing can be created."""

    async def run() -> None:
        api = StoreApi()
        api.refused["create"] = [ForbiddenError("the namespace is being terminated")]
        await Events(api).emit(TOPIC, "NamespaceTerminating", "gone")
        assert api.calls == ["get", "create"]

    asyncio.run(run())


def test_an_event_that_found_nobody_is_told_the_next_time() -> None:
    """A refusal stands; a server that was away has not heard it."""

    async def run() -> None:
        api = StoreApi()
        api.refused["create"] = [UnavailableError("away"), ForbiddenError("no")]
        events = Events(api)
        for _ in range(3):
            await events.emit(TOPIC, "Changed", "grown")
        assert api.calls == ["get", "create", "get", "create"]

    asyncio.run(run())

"""`EventWatch`: what is new of Kubernetes' events, each time it is looked at (CON-123)."""

import asyncio
from typing import Any

from aiohttp.test_utils import TestServer

from barnabas_console.kubernetes.api_reader import ApiReader
from barnabas_console.kubernetes.event_watch import EventWatch
from tests.support.listed_resources import api_server, lists


def test_only_what_happened_since_the_last_look_is_news() -> None:
    """An event that happens again counts up, and is news again; a refusal is no news."""

    async def run() -> None:
        pages = lists()
        events: list[dict[str, Any]] = pages["/api/v1/namespaces/shop/events"][0]
        async with TestServer(api_server(pages)) as server:
            reader = ApiReader(str(server.make_url("/")), namespace="shop")
            watch = EventWatch(reader)
            assert await watch.news() == []
            assert await watch.news() == []
            warned = {**events[0], "type": "Warning", "reason": "Drift", "message": "changed"}
            foreign = {"kind": "Pod", "name": "web", "namespace": "shop"}
            events += [warned, {**warned, "involvedObject": foreign}]
            (change,) = await watch.news()
            assert (change.kind, change.subject) == ("kubernetes", "Topic orders")
            assert (change.words, change.state) == ("Drift: changed", "warning")
            events[0]["count"] = 2
            (again,) = await watch.news()
            assert again.words == "Created"
            kept = pages.pop("/api/v1/namespaces/shop/events")
            assert await watch.news() == []
            pages["/api/v1/namespaces/shop/events"] = kept
            assert await watch.news() == []
            await reader.close()

    asyncio.run(run())

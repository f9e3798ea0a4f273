"""`GET /api/v1/overview`: the start page, is the cluster well and who may be stopped (CON-110)."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from barnabas_console.api.broker_rows import broker_rows
from barnabas_console.api.groups import groups_in_trouble
from barnabas_console.api.responses import json_response
from barnabas_console.cluster import overview as words
from barnabas_console.context import ConsoleContext
from barnabas_console.history.traffic_rows import load_of, traffic

#: More would hide the rest of the page; the list of groups has all.
_GROUPS_MAX: Final = 10


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def overview(request: web.Request) -> web.Response:
        viewer = context.viewer(request)
        (facts, rows), groups = await asyncio.gather(
            broker_rows(context, viewer), groups_in_trouble(viewer, context.sampler, _GROUPS_MAX)
        )
        brokers = [{**row, **load_of(context.sampler.series, row["id"])} for row in rows]
        return json_response(
            request,
            {
                "health": words.health(facts, brokers),
                "brokers": brokers,
                "troubles": words.troubles(facts),
                "groups": groups,
                "traffic": traffic(context.sampler.series),
                "command": "barnabas cluster status",
                "as_of_ms": facts.read_ms,
            },
        )

    return [web.get("/api/v1/overview", overview)]

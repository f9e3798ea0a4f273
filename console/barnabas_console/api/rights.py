"""`GET rights ?topic&group`: what of a page's buttons the viewer may not do, and why (CON-141).

`locks` has those alone; what brokers do not tell is not locked: they refuse it when it is tried.
"""

from __future__ import annotations

from aiohttp import web

from barnabas_console.api.responses import json_response
from barnabas_console.context import ConsoleContext
from barnabas_console.rights.held import locks
from barnabas_console.rights.needed import acts_on_cluster, acts_on_group, acts_on_topic


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def rights(request: web.Request) -> web.Response:
        acts = dict(acts_on_cluster())
        if topic := request.query.get("topic"):
            acts.update(acts_on_topic(topic))
        if group := request.query.get("group"):
            acts.update(acts_on_group(group))
        return json_response(request, {"locks": await locks(context.viewer(request), acts)})

    return [web.get("/api/v1/rights", rights)]

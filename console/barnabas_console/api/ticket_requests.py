"""`POST /api/v1/tickets {path}`: a one-time ticket for a download, as `{url}` (CON-142).

The url is the path with the ticket, for an anchor of the page. Which paths can be downloaded is
the routes' own affair: a ticket only stands in for the header of a call.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from barnabas_console.api.request_body import json_object, text_field
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.route_kinds import reads
from barnabas_console.context import ConsoleContext

_API = "/api/v1/"
# The server takes no longer request line.
PATH_CHARACTERS_MAX: Final = 8_000


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    @reads
    async def issue(request: web.Request) -> web.Response:
        path = text_field(await json_object(request), "path")
        if not path.startswith(_API) or "ticket=" in path:
            raise ApiError(400, "BAD_REQUEST", f"a path of the API begins with {_API}")
        if len(path) > PATH_CHARACTERS_MAX:
            raise ApiError(400, "BAD_REQUEST", "no path of the API is so long")
        target = context.settings.path_prefix + path
        ticket = context.tickets.issue(target, context.holder(request))
        joint = "&" if "?" in target else "?"
        return json_response(request, {"url": f"{target}{joint}ticket={ticket}"})

    return [web.post("/api/v1/tickets", issue)]

"""All routes of the API. In a read-only console those that change something do not exist (CON-143).

A page has a module with `routes(context)`, named here.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from barnabas_console.api import (
    brokers,
    cluster,
    groups,
    history,
    kubernetes,
    list_exports,
    login,
    overview,
    plans,
    records,
    rights,
    session,
    ticket_requests,
    topics,
)
from barnabas_console.api.route_kinds import changes
from barnabas_console.context import ConsoleContext

_PAGES: Final = (
    brokers,
    cluster,
    groups,
    history,
    kubernetes,
    list_exports,
    login,
    overview,
    plans,
    records,
    rights,
    session,
    ticket_requests,
    topics,
)


def api_routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes that this console has, without its path prefix."""
    found = [route for page in _PAGES for route in page.routes(context)]
    if not context.settings.is_read_only:
        return found
    return [route for route in found if not changes(route.method, route.handler)]

"""`GET /api/v1/session`: who looks, at what, and what may be done; the page's first question."""

from __future__ import annotations

from aiohttp import web

from barnabas_client.errors import BarnabasError
from barnabas_console.api.responses import json_response
from barnabas_console.context import ConsoleContext
from barnabas_console.settings import NO_LOGIN
from barnabas_console.viewer import Viewer

_APIS_MS = 60_000


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""

    async def session(request: web.Request) -> web.Response:
        viewer = context.viewers.find(request)
        login, oidc = context.settings.login, context.settings.oidc
        return json_response(
            request,
            {
                "principal": None if viewer is None else viewer.principal,
                "read_only": context.settings.is_read_only,
                "cluster": context.settings.cluster_name,
                "version": context.version,
                "kubernetes": context.kubernetes is not None,
                "apis": None if viewer is None else await _apis(viewer),
                "login": None if login == NO_LOGIN else login,
                "provider": None if oidc is None else oidc.provider_name,
            },
        )

    return [web.get("/api/v1/session", session)]


async def _apis(viewer: Viewer) -> list[str] | None:
    """The names of what a broker serves; None while none responds."""
    try:
        await viewer.ready()
        served = await viewer.shared(
            "apis", lambda: viewer.admin.features.served_apis(), ttl_ms=_APIS_MS
        )
    except BarnabasError:
        return None
    return sorted(served)

"""`POST /api/v1/login` and `/logout`: a session for who brokers let in (CON-140).

By user and password, with an OpenID provider, or by a token, as the console was started for; with
no login there is none of these routes. Brokers decide, and slow down who guesses.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from aiohttp import web

from barnabas_client.errors import AuthenticationError
from barnabas_console.api.request_body import json_object, text_field
from barnabas_console.api.responses import ApiError, json_response
from barnabas_console.api.route_kinds import reads
from barnabas_console.api.token_subject import NAME_LENGTH_MAX, subject_of
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.context import ConsoleContext
from barnabas_console.settings import NO_LOGIN

CREDENTIALS_LENGTH_MAX: Final = 16 * 1024


def routes(context: ConsoleContext) -> list[web.RouteDef]:
    """The routes of this module."""
    if context.settings.login == NO_LOGIN:
        return []

    @reads
    async def login(request: web.Request) -> web.Response:
        connection, credentials = _connection(context, await json_object(request))
        response = web.Response(status=204)
        try:
            await context.viewers.log_in(request, response, connection, credentials)
        except AuthenticationError:
            raise ApiError(
                401, "LOGIN_FAILED", "the cluster does not let in this user with this password"
            ) from None
        return response

    @reads
    async def logout(request: web.Request) -> web.Response:
        was_in = context.viewers.find(request) is not None
        context.viewers.log_out(request)
        await context.viewers.close_unused()
        if context.provider is None or not was_in:
            return web.Response(status=204)
        from barnabas_console.oidc.provider import ProviderError

        with contextlib.suppress(ProviderError):
            url = await context.provider.logout_url(f"{context.address(request)}/")
            if url is not None:
                return json_response(request, {"url": url})
        return web.Response(status=204)

    out = web.post("/api/v1/logout", logout)
    if context.provider is not None:
        from barnabas_console.api.oidc_login import oidc_routes

        return [*oidc_routes(context, context.provider), out]
    return [web.post("/api/v1/login", login), out]


def _connection(context: ConsoleContext, body: dict[str, Any]) -> tuple[ClusterConnection, str]:
    """The connection of who logs in, not tried yet, and the secret. Raises: ApiError."""
    base = context.connection
    if context.settings.login == "sasl":
        name, password = text_field(body, "username"), text_field(body, "password")
        if not 0 < len(name) <= NAME_LENGTH_MAX or len(password) > CREDENTIALS_LENGTH_MAX:
            raise ApiError(400, "BAD_REQUEST", "give a user and a password")
        return base.with_password(name, password), password
    token = text_field(body, "token" if "token" in body else "password").strip()
    if not 0 < len(token) <= CREDENTIALS_LENGTH_MAX or not token.isascii():
        raise ApiError(400, "BAD_REQUEST", "give a token")
    principal = f"User:{subject_of(token) or '(of the token)'}"
    return base.with_token(principal, lambda: token), token

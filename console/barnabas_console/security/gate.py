"""What every request passes: bounds, rules about who may ask, errors as JSON, the connection.

Invariants: at most `REQUESTS_MAX` requests at once, and `STREAMS_MAX` streams, which are counted
apart (CON-161); of those that pages read at most `STREAMS_OF_BROWSER_MAX` in one browser, which has
six connections and needs some for everything else (CON-160); no route of the API runs for a request
that `request_rules` refuse; a route runs with its viewer connected, except those that need no
broker; a stream ends with its session.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from barnabas_client.errors import AuthenticationError, AuthorizationError, BarnabasError
from barnabas_console.api.responses import ApiError, denied, error_response, of_client
from barnabas_console.api.route_kinds import is_of_a_page, is_stream, needed_by
from barnabas_console.context import ConsoleContext
from barnabas_console.rights.needed import REFUSALS, lock_of
from barnabas_console.security.request_rules import (
    api_refusal,
    browser_of,
    cluster_refusal,
    host_names,
    host_refusal,
    page_refusal,
)

logger = logging.getLogger(__name__)

REQUESTS_MAX: Final = 64
STREAMS_MAX: Final = 100
STREAMS_OF_BROWSER_MAX: Final = 4
# Answered without brokers: who looks, and how to log in.
_WITHOUT_CLUSTER: Final = frozenset({"/session", "/tickets", "/login", "/login/begin", "/logout"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """The middlewares of one console, the outermost first."""

    def __init__(self, context: ConsoleContext) -> None:
        self._context = context
        self._names = host_names(context.settings)
        self._api = f"{context.settings.path_prefix}/api/v1"
        self._request_count = 0
        self._stream_count = 0
        self._streams_of_browsers = Counter[str]()

    @property
    def middlewares(self) -> list[Callable[..., Awaitable[web.StreamResponse]]]:
        """What the application is made with."""
        return [
            self._bounded,
            self._with_errors,
            self._admitted,
            self._of_browser,
            self._connected,
        ]

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """So many requests at once, and no more."""
        goes_on = is_stream(request.match_info.handler)
        if (self._stream_count if goes_on else self._request_count) >= (
            STREAMS_MAX if goes_on else REQUESTS_MAX
        ):
            return error_response(
                ApiError(429, "TOO_MANY_REQUESTS", "the console has too much to do: try again")
            )
        self._stream_count += goes_on
        self._request_count += not goes_on
        metrics = self._context.metrics
        metrics.stream_count = self._stream_count
        try:
            response = await handler(request)
            metrics.responses[response.status] += 1
            return response
        finally:
            self._stream_count -= goes_on
            self._request_count -= not goes_on
            metrics.stream_count = self._stream_count

    @web.middleware
    async def _with_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Errors of calls of the API are JSON; nothing of a bug is told but that it is one."""
        try:
            return await handler(request)
        except ApiError as error:
            return error_response(error)
        except BarnabasError as error:
            if isinstance(error, AuthenticationError):
                self._context.viewers.log_out(request)
            return error_response(self._told(request, error))
        except web.HTTPException as error:
            if not self._is_api(request):
                raise
            return error_response(
                ApiError(error.status, error.reason.upper().replace(" ", "_"), error.reason)
            )
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return error_response(ApiError(500, "INTERNAL", "the console has a bug: see its log"))

    def _told(self, request: web.Request, error: BarnabasError) -> ApiError:
        """An error of the client; a missing right by its name, where it is the route's own."""
        needed = needed_by(request)
        viewer = self._context.viewers.find(request)
        if not isinstance(error, AuthorizationError) or needed is None or viewer is None:
            return of_client(error)
        if error.code is not REFUSALS.get(needed.resource_type):
            return of_client(error)
        return denied(error, lock_of(viewer.principal, (needed,)))

    @web.middleware
    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Only pages of the console's own, by a name of its own (CON-142)."""
        refused = host_refusal(request.headers.get("Host", ""), self._names)
        if refused is None and self._is_api(request):
            refused = self._api_refusal(request)
        elif refused is None and request.method not in ("GET", "HEAD"):
            refused = page_refusal(request.headers)
        if refused is not None:
            raise ApiError(403, "FORBIDDEN", refused)
        refused = cluster_refusal(request.headers, self._context.settings.cluster_name)
        if refused is not None:
            raise ApiError(409, "ANOTHER_CLUSTER", refused, hint="Load the page anew.")
        return await handler(request)

    @web.middleware
    async def _of_browser(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """So many tails, scans and changes under way in one browser, and no more."""
        if not is_of_a_page(request.match_info.handler):
            return await handler(request)
        browser, streams = browser_of(request.headers, request.remote), self._streams_of_browsers
        if streams[browser] >= STREAMS_OF_BROWSER_MAX:
            raise ApiError(
                429,
                "TOO_MANY_STREAMS",
                f"this browser has {STREAMS_OF_BROWSER_MAX} tails, searches or changes under way",
                hint="Stop one of them, or close its tab, and try again.",
            )
        streams[browser] += 1
        try:
            return await handler(request)
        finally:
            streams[browser] -= 1
            if not streams[browser]:
                del streams[browser]

    @web.middleware
    async def _connected(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Routes of the API find their viewer's admin client started."""
        is_there = request.match_info.http_exception is None
        needed = self._is_api(request) and is_there
        if needed and request.path.removeprefix(self._api) not in _WITHOUT_CLUSTER:
            await self._context.viewer(request).ready()
        if not is_stream(request.match_info.handler):
            return await handler(request)
        async with self._context.viewers.during_session(request):
            return await handler(request)

    def _api_refusal(self, request: web.Request) -> str | None:
        ticket = request.query.get("ticket")
        if ticket is None or request.method != "GET":
            return api_refusal(request.headers)
        target = request.path_qs.rpartition("ticket=")[0].rstrip("?&")
        if self._context.tickets.redeem(ticket, target, self._context.holder(request)):
            return None
        return "the download's link was used before, or is too old: begin it again on the page"

    def _is_api(self, request: web.Request) -> bool:
        return request.path.startswith(f"{self._api}/")

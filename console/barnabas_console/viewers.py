"""The viewers of a console: one for each principal that somebody looks at the cluster as (CON-141).

Without a login there is one, of the principal that the process was started with. With one there is
a viewer for all sessions of equal credentials, made by a log-in that brokers have let pass, and
closed when its last session has ended; who started the process lends nobody its rights.

Invariants: a request without an open session gets no viewer, and one that goes on ends with its
session, whose viewer it keeps; a viewer with a session is not closed; credentials are in memory
alone; at most `LOGINS_MAX` log-ins at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web

from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError
from barnabas_console.api.responses import ApiError
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.security.login_sessions import LoginSessions
from barnabas_console.settings import NO_LOGIN, ConsoleSettings
from barnabas_console.viewer import Viewer

if TYPE_CHECKING:
    from barnabas_console.oidc.user_tokens import UserTokens

COOKIE: Final = "barnabas_console"
LOGINS_MAX: Final = 8
SWEEP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Stream:
    """A request that goes on: of whom, and what ends it."""

    viewer: Viewer
    token: str | None
    limit: asyncio.Timeout


class Viewers:
    """All viewers, by who they are of."""

    def __init__(
        self, settings: ConsoleSettings, connection: ClusterConnection, clock: Clock
    ) -> None:
        self._clock = clock
        self._connection = connection
        self._path = f"{settings.path_prefix}/"
        self._own = Viewer(connection, clock) if settings.login == NO_LOGIN else None
        self._sessions = LoginSessions[Viewer](clock, is_over=lambda viewer: viewer.is_over)
        self._by_credentials: dict[str, Viewer] = {}
        self._key = secrets.token_bytes(32)
        self._login_count = 0
        self._streams: dict[int, _Stream] = {}  # by the identity of the request

    def find(self, request: web.Request) -> Viewer | None:
        """The viewer of a request; None where nobody is logged in."""
        return self._own or self._sessions.find(request.cookies.get(COOKIE))

    def of(self, request: web.Request) -> Viewer:
        """The viewer of a request. Raises: ApiError where nobody is logged in."""
        stream = self._streams.get(id(request))
        viewer = self.find(request) if stream is None else stream.viewer
        if viewer is None:
            raise ApiError(401, "LOGIN_REQUIRED", "log in to see this cluster")
        return viewer

    @asynccontextmanager
    async def during_session(self, request: web.Request) -> AsyncIterator[None]:
        """End what is done inside with the session of the request; meanwhile the session is used.

        What has begun to be sent ends with its connection.
        Raises: ApiError where the session was over first.
        """
        limit = asyncio.timeout(None)
        stream = _Stream(self.of(request), request.cookies.get(COOKIE), limit)
        try:
            async with limit:
                self._streams[id(request)] = stream
                try:
                    yield
                finally:
                    del self._streams[id(request)]
        except TimeoutError:
            if not limit.expired():
                raise
            if request.transport is not None:
                request.transport.abort()
            raise ApiError(401, "LOGIN_REQUIRED", "log in again") from None

    async def log_in(
        self,
        request: web.Request,
        response: web.StreamResponse,
        connection: ClusterConnection,
        credentials: str,
        tokens: UserTokens | None = None,
    ) -> Viewer:
        """Have brokers check the credentials and open a session, whose cookie the response gets.

        Tokens that a provider renews are of one session: it shares its viewer with no other.

        Raises: ApiError; the client's errors, AuthenticationError among them.
        """
        if self._login_count >= LOGINS_MAX:
            if tokens is not None:
                await tokens.revoke()
            raise ApiError(429, "TOO_MANY_REQUESTS", "too many log in at once: try again")
        self._login_count += 1
        try:
            fresh = await self._checked(connection, credentials, tokens)
        finally:
            self._login_count -= 1
        # No await before the session is open: until then nothing keeps a known viewer.
        key = fresh.identity if tokens is None else secrets.token_hex()
        viewer = self._by_credentials.setdefault(key, fresh)
        self.log_out(request)
        response.set_cookie(
            COOKIE,
            self._sessions.open(viewer, viewer.identity),
            path=self._path,
            httponly=True,
            secure=True,
            samesite="Strict",
        )
        if viewer is not fresh:
            await fresh.close()
        return viewer

    def log_out(self, request: web.Request) -> None:
        """Close the request's session, and end its streams."""
        self._sessions.end(request.cookies.get(COOKIE))
        self._end_streams()

    async def sweep(self) -> None:
        """Close viewers that have no session any more, again and again until it is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.renew_streams()
            await self.close_unused()

    async def renew_streams(self) -> None:
        """Have good tokens for who watches a stream and asks for nothing else, or end it."""
        viewers = {id(stream.viewer): stream.viewer for stream in self._streams.values()}
        renewals = (viewer.renew() for viewer in viewers.values())
        for failure in await asyncio.gather(*renewals, return_exceptions=True):
            if failure is not None and not isinstance(failure, BarnabasError):
                raise failure

    async def close_unused(self) -> None:
        """Close viewers that have no session any more."""
        self._end_streams()
        used = set(map(id, self._sessions.owners()))
        unused = [key for key, one in self._by_credentials.items() if id(one) not in used]
        viewers = [self._by_credentials.pop(key) for key in unused]
        await asyncio.gather(*(viewer.close() for viewer in viewers))

    async def close(self) -> None:
        """Close all of them."""
        viewers = [*self._by_credentials.values(), *([] if self._own is None else [self._own])]
        self._by_credentials.clear()
        await asyncio.gather(*(viewer.close() for viewer in viewers))

    def _end_streams(self) -> None:
        """End those whose session is over."""
        if self._own is not None:
            return
        now = asyncio.get_running_loop().time()
        for stream in self._streams.values():
            if not stream.limit.expired() and self._sessions.find(stream.token) is None:
                stream.limit.reschedule(now)

    async def _checked(
        self, connection: ClusterConnection, credentials: str, tokens: UserTokens | None
    ) -> Viewer:
        """A new viewer that brokers have let in by just these credentials."""
        # As JSON, no two pairs are the same text.
        text = json.dumps([connection.principal, credentials])
        identity = hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
        fresh = Viewer(connection, self._clock, identity=identity, tokens=tokens)
        try:
            await fresh.ready()
        except BaseException:
            await fresh.close()
            raise
        return fresh

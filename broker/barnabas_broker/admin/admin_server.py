"""The admin HTTP: `/live`, `/ready`, `/metrics` and `/status`; `/drain` and `/undrain`.

`POST /drain` is what a preStop hook asks: it starts the drain that SIGTERM starts, and changes
nothing else; `POST /undrain` takes it back. Who may ask what is said in `admin_access`.

It is started after the Kafka listener accepts, because aiohttp takes longer to import than all of
the broker: `aiohttp` is imported in `start`, nowhere else.
"""

import asyncio
import importlib
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_broker.admin.admin_access import needs_caller, page_refusal, refusal
from barnabas_broker.admin.admin_callers import AdminCallers
from barnabas_broker.admin.admin_connections import AdminConnections
from barnabas_broker.admin.admin_sockets import BACKLOG, TlsPort, listen_at
from barnabas_broker.metrics.collector import MetricsCollector
from barnabas_broker.security.audit.audit import Audit
from barnabas_broker.security.audit.audit_event import AuditSource

if TYPE_CHECKING:
    from aiohttp import web

SHUTDOWN_SECONDS = 1.0

TIMEOUT_DIGITS_MAX = 9
_CHANGING = frozenset(("/drain", "/undrain"))

_NO_CONSOLE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Barnabas</title></head><body>
<h1>Barnabas</h1>
<p>This is the admin port of a broker: <a href="/status">status</a>,
<a href="/metrics">metrics</a>.</p>
<p>The console is a process of its own. Start one, then open http://127.0.0.1:9640/</p>
<pre>barnabas console --bootstrap-server HOST:PORT</pre>
<p>With the broker's setting <code>console.url</code> this page leads there.</p>
</body></html>
"""

_LISTENER = "ADMIN"

Drain = Callable[[int | None, AuditSource], Awaitable[Mapping[str, Any]]]
"""Starts the drain, waits at most for the given milliseconds, says how far it is."""
Undrain = Callable[[AuditSource], Awaitable[Mapping[str, Any]]]
"""Takes a drain back and says what the broker does now."""


class AdminServer:
    """The HTTP server of one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        is_live: Callable[[], bool],
        is_ready: Callable[[], bool],
        status: Callable[[], Mapping[str, Any]],
        collector: MetricsCollector,
        drain: Drain | None = None,
        undrain: Undrain | None = None,
        *,
        callers: AdminCallers | None = None,
        tls: TlsPort | None = None,
        socket_path: str | None = None,
        console_url: str | None = None,
        audit: Audit | None = None,
    ) -> None:
        """Make one that does not listen yet; an empty host means every interface.

        Without `callers` whoever reaches the port may read. `audit` is told who is refused.
        """
        self._audit = audit
        self._callers = callers
        self._tls = tls
        self._socket_path = socket_path
        self._console_url = console_url
        self._unix: asyncio.Server | None = None
        self._drain = drain
        self._undrain = undrain
        self.connections = AdminConnections()
        # Metrics and status are read by one request at a time: each takes some milliseconds, and
        # sixty-four connections would have them in one turn of the loop.
        self._reading = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self.host = host
        self._port = port
        self._is_live = is_live
        self._is_ready = is_ready
        self._status = status
        self._collector = collector
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The bound port; before `start`, the configured one."""
        return self._port

    async def start(self) -> None:
        """Bind and answer.

        Raises: OSError where the address cannot be bound.
        """
        # In a thread: it takes a fifth of a second, and the first clients are there already.
        await asyncio.to_thread(importlib.import_module, "aiohttp.web")
        from aiohttp import web

        async def live(request: web.Request) -> web.Response:
            return _probe(self._is_live(), "live")

        async def ready(request: web.Request) -> web.Response:
            return _probe(self._is_ready(), "ready")

        async def status(request: web.Request) -> web.Response:
            async with self._reading:
                text = json.dumps(self._status(), indent=2, default=str) + "\n"
                await asyncio.sleep(0)  # the next one in another turn
            return web.Response(text=text, content_type="application/json")

        async def metrics(request: web.Request) -> web.Response:
            async with self._reading:
                await self._collector.refresh()
                arguments = (self._collector.snapshot(), request.headers.get("Accept", ""))
                body, content_type = await asyncio.to_thread(self._collector.render, *arguments)
            return web.Response(body=body, headers={"Content-Type": content_type})

        async def index(request: web.Request) -> web.Response:
            return _first_page(self._console_url)

        async def drain(request: web.Request) -> web.Response:
            return await _drain(request, self._drain, request[source_key])

        async def undrain(request: web.Request) -> web.Response:
            return await _undrain(self._undrain, request[source_key])

        source_key = web.RequestKey("source", AuditSource)

        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            return await self._guarded(request, handler, source_key)

        application = web.Application(middlewares=[guarded])
        application.router.add_get("/", index)
        application.router.add_get("/live", live)
        application.router.add_get("/ready", ready)
        application.router.add_get("/status", status)
        application.router.add_get("/metrics", metrics)
        application.router.add_post("/drain", drain)
        application.router.add_post("/undrain", undrain)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        make = runner.server
        assert make is not None
        try:
            await self._listen(lambda: self.connections.bounded(make()))
        except BaseException:
            await self._stop_listening()
            await runner.cleanup()
            raise
        self._runner = runner

    async def _listen(self, make: Callable[[], asyncio.Protocol]) -> None:
        if self._socket_path is not None:
            self._unix = await listen_at(make, self._socket_path)
        if self._tls is not None:
            self._port = await self._tls.start(make, self.host, self._port)
            return
        self._server = await asyncio.get_running_loop().create_server(
            make, self.host or None, self._port, backlog=BACKLOG
        )
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def _stop_listening(self) -> None:
        servers, self._server, self._unix = (self._server, self._unix), None, None
        for server in servers:
            if server is not None:
                server.close()
        if self._tls is not None:
            await self._tls.close()

    async def _guarded(
        self,
        request: "web.Request",
        handler: Callable[["web.Request"], Awaitable["web.StreamResponse"]],
        source_key: "web.RequestKey[AuditSource]",
    ) -> "web.StreamResponse":
        """Answer what the rules let pass; its connection counts as busy meanwhile."""

        transport = request.transport
        self.connections.begin(transport)
        try:
            refused, request[source_key] = await self._refused(request)
            return await handler(request) if refused is None else refused
        finally:
            self.connections.end(transport)

    async def _refused(self, request: "web.Request") -> "tuple[web.Response | None, AuditSource]":
        """The answer to a request that may not pass, None where it may; and who sends it."""
        from aiohttp import web

        transport, origin = request.transport, request.headers.get("Origin")
        own = None if transport is None else transport.get_extra_info("sockname")
        source = AuditSource(host=request.remote or "", listener=_LISTENER)
        if transport is not None and _is_unix(transport):
            source = AuditSource(host="unix", listener=_LISTENER)
            reason = page_refusal(origin)
        elif self._callers is None:
            reason = refusal(
                changes=request.path in _CHANGING,
                peer=request.remote or "",
                own=str(own[0]) if own else "",
                host=request.headers.get("Host", ""),
                origin=origin,
            )
        else:
            reason = page_refusal(origin)
            if reason is None and needs_caller(request.path, request.method):
                shown = None if transport is None else transport.get_extra_info("ssl_object")
                name = await self._callers.caller(shown, request.headers.get("Authorization"))
                source = source._replace(principal=name or "")
                if name is None:
                    if self._audit is not None:
                        self._audit.log_in(source, failure="no certificate or token that is named")
                    return _unknown_caller(), source
        refused = None if reason is None else web.Response(status=403, text=f"{reason}\n")
        return refused, source

    async def stop(self) -> None:
        """Close the port and what is connected to it."""
        await self._stop_listening()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def _is_unix(transport: asyncio.BaseTransport) -> bool:
    connected = transport.get_extra_info("socket")
    return connected is not None and connected.family == socket.AF_UNIX


def _probe(holds: bool, word: str) -> "web.Response":
    """200 or 503 with one word for people."""
    from aiohttp import web

    return web.Response(
        status=200 if holds else 503, text=f"{word}\n" if holds else f"not {word}\n"
    )


def _first_page(console_url: str | None) -> "web.Response":
    """The way to the console (CON-133)."""
    from aiohttp import web

    if console_url is not None:
        return web.Response(status=302, headers={"Location": console_url})
    return web.Response(
        text=_NO_CONSOLE,
        content_type="text/html",
        headers={"Content-Security-Policy": "default-src 'none'"},
    )


def _unknown_caller() -> "web.Response":
    from aiohttp import web

    return web.Response(
        status=401,
        text="show a certificate or a token that admin.http.* names\n",
        headers={"WWW-Authenticate": "Bearer"},
    )


async def _drain(
    request: "web.Request", drain: Drain | None, source: AuditSource
) -> "web.Response":
    """200 with how far the drain is, also when its time was over: a hook must not fail."""
    from aiohttp import web

    text = request.query.get("timeout")
    if text is not None and not (
        text.isascii() and text.isdigit() and len(text) <= TIMEOUT_DIGITS_MAX
    ):
        return web.Response(status=400, text="timeout is a number of seconds\n")
    if drain is None:
        return web.Response(status=503, text="not running\n")
    told = await drain(None if text is None else int(text) * 1000, source)
    return web.Response(text=json.dumps(told, indent=2) + "\n", content_type="application/json")


async def _undrain(undrain: Undrain | None, source: AuditSource) -> "web.Response":
    """200 with what the broker does now."""
    from aiohttp import web

    if undrain is None:
        return web.Response(status=503, text="not running\n")
    text = json.dumps(await undrain(source), indent=2) + "\n"
    return web.Response(text=text, content_type="application/json")

"""The admin HTTP: `/live`, `/ready`, `/metrics` and `/status` for all; `/drain` and `/undrain`.

`POST /drain` is what a preStop hook asks: it starts the drain that SIGTERM starts, and changes
nothing else; `POST /undrain` takes it back. Both are for the broker's own machine or pod
(`admin_access`). It is started after the Kafka listener accepts, because aiohttp takes
longer to import than all of the broker: `aiohttp` is imported in `start`, nowhere else.
"""

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_broker.admin.admin_access import refusal
from barnabas_broker.admin.admin_connections import AdminConnections
from barnabas_broker.metrics.collector import MetricsCollector

if TYPE_CHECKING:
    from aiohttp import web

SAMPLES_INLINE_MAX = 2_000
"""More samples than this are formatted in a thread, to keep the loop free for requests."""
SHUTDOWN_SECONDS = 1.0

BACKLOG = 128
TIMEOUT_DIGITS_MAX = 9
_CHANGING = frozenset(("/drain", "/undrain"))

Drain = Callable[[int | None], Awaitable[Mapping[str, Any]]]
"""Starts the drain, waits at most for the given milliseconds, says how far it is."""
Undrain = Callable[[], Awaitable[Mapping[str, Any]]]
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
    ) -> None:
        """Make one that does not listen yet; an empty host means every interface."""
        self._drain = drain
        self._undrain = undrain
        self.connections = AdminConnections()
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
            text = json.dumps(self._status(), indent=2, default=str) + "\n"
            return web.Response(text=text, content_type="application/json")

        async def metrics(request: web.Request) -> web.Response:
            await self._collector.refresh()
            samples = self._collector.snapshot()
            arguments = (samples, request.headers.get("Accept", ""))
            if len(samples) > SAMPLES_INLINE_MAX:
                body, content_type = await asyncio.to_thread(self._collector.render, *arguments)
            else:
                body, content_type = self._collector.render(*arguments)
            return web.Response(body=body, headers={"Content-Type": content_type})

        async def drain(request: web.Request) -> web.Response:
            return await _drain(request, self._drain)

        async def undrain(request: web.Request) -> web.Response:
            return await _undrain(self._undrain)

        @web.middleware
        async def guarded(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            return await self._guarded(request, handler)

        application = web.Application(middlewares=[guarded])
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
            self._server = await asyncio.get_running_loop().create_server(
                lambda: self.connections.bounded(make()),
                self.host or None,
                self._port,
                backlog=BACKLOG,
            )
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._port = int(self._server.sockets[0].getsockname()[1])

    async def _guarded(
        self,
        request: "web.Request",
        handler: Callable[["web.Request"], Awaitable["web.StreamResponse"]],
    ) -> "web.StreamResponse":
        """Answer what the rules let pass; its connection counts as busy meanwhile."""
        from aiohttp import web

        transport = request.transport
        own = None if transport is None else transport.get_extra_info("sockname")
        reason = refusal(
            changes=request.path in _CHANGING,
            peer=request.remote or "",
            own=str(own[0]) if own else "",
            host=request.headers.get("Host", ""),
            origin=request.headers.get("Origin"),
        )
        if reason is not None:
            return web.Response(status=403, text=f"{reason}\n")
        self.connections.begin(transport)
        try:
            return await handler(request)
        finally:
            self.connections.end(transport)

    async def stop(self) -> None:
        """Close the port and what is connected to it."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def _probe(holds: bool, word: str) -> "web.Response":
    """200 or 503 with one word for people."""
    from aiohttp import web

    return web.Response(
        status=200 if holds else 503, text=f"{word}\n" if holds else f"not {word}\n"
    )


async def _drain(request: "web.Request", drain: Drain | None) -> "web.Response":
    """200 with how far the drain is, also when its time was over: a hook must not fail."""
    from aiohttp import web

    text = request.query.get("timeout")
    if text is not None and not (
        text.isascii() and text.isdigit() and len(text) <= TIMEOUT_DIGITS_MAX
    ):
        return web.Response(status=400, text="timeout is a number of seconds\n")
    if drain is None:
        return web.Response(status=503, text="not running\n")
    told = await drain(None if text is None else int(text) * 1000)
    return web.Response(text=json.dumps(told, indent=2) + "\n", content_type="application/json")


async def _undrain(undrain: Undrain | None) -> "web.Response":
    """200 with what the broker does now."""
    from aiohttp import web

    if undrain is None:
        return web.Response(status=503, text="not running\n")
    text = json.dumps(await undrain(), indent=2) + "\n"
    return web.Response(text=text, content_type="application/json")

"""`/live`, `/ready`, `/metrics`, `/status` and `/drain`, for probes, Prometheus and people.

`/drain` is what a preStop hook asks: it starts the drain that SIGTERM starts, and changes nothing
else. It is started after the Kafka listener accepts, because aiohttp takes
longer to import than all of the broker: `aiohttp` is imported in `start`, nowhere else.
"""

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_broker.metrics.collector import MetricsCollector

if TYPE_CHECKING:
    from aiohttp import web

SAMPLES_INLINE_MAX = 2_000
"""More samples than this are formatted in a thread, to keep the loop free for requests."""
SHUTDOWN_SECONDS = 1.0

Drain = Callable[[int | None], Awaitable[Mapping[str, Any]]]
"""Starts the drain, waits at most for the given milliseconds, says how far it is."""


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
    ) -> None:
        """Make one that does not listen yet; an empty host means every interface."""
        self._drain = drain
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

        application = web.Application()
        application.router.add_get("/live", live)
        application.router.add_get("/ready", ready)
        application.router.add_get("/status", status)
        application.router.add_get("/metrics", metrics)
        application.router.add_get("/drain", drain)
        application.router.add_post("/drain", drain)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host or None, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._port = int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port and what is connected to it."""
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
    if text is not None and not (text.isascii() and text.isdigit()):
        return web.Response(status=400, text="timeout is a number of seconds\n")
    if drain is None:
        return web.Response(status=503, text="not running\n")
    told = await drain(None if text is None else int(text) * 1000)
    return web.Response(text=json.dumps(told, indent=2) + "\n", content_type="application/json")

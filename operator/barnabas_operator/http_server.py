"""The operator's own HTTP port: /live, /ready and /metrics.

kopf has a liveness endpoint, too; it is not served by a replica that waits for the Lease, so this
one answers for both.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from barnabas_operator.metrics import OperatorMetrics

# The version that the exposition format of prometheus_client names.
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class HttpServer:
    """Listens from `start` to `close`."""

    def __init__(
        self,
        metrics: OperatorMetrics,
        *,
        host: str,
        port: int,
        trouble: Callable[[], str],
        unreadiness: Callable[[], str],
    ) -> None:
        """`trouble` says why the process should be restarted, `unreadiness` what is missing."""
        self._metrics = metrics
        self._address = host, port
        self._trouble = trouble
        self._unreadiness = unreadiness
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that was taken."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen. Raises: OSError."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/live", self._live),
                web.get("/ready", self._ready),
                web.get("/metrics", self._serve_metrics),
            ]
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        host, port = self._address
        await web.TCPSite(self._runner, host or None, port).start()

    async def close(self) -> None:
        """Stop listening; may be repeated."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _live(self, _: web.Request) -> web.Response:
        return _answer(self._trouble())

    async def _ready(self, _: web.Request) -> web.Response:
        return _answer(self._unreadiness())

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics.exposition(), headers={"Content-Type": _CONTENT_TYPE}
        )


def _answer(trouble: str) -> web.Response:
    return web.Response(status=503 if trouble else 200, text=f"{trouble or 'ok'}\n")

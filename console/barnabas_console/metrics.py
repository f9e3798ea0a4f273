"""What Prometheus sees of a console, and whether it lives: on a port of its own (CON-132).

The page's port may be reachable for one browser alone; the kubelet and Prometheus need another one,
on which there is nothing to be had but this.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class ConsoleMetrics:
    """The metrics of one console."""

    def __init__(self) -> None:
        #: Responses so far by their status.
        self.responses = Counter[int]()
        #: Tails, scans and changes that are being shown.
        self.stream_count = 0


def registry_of(metrics: ConsoleMetrics) -> CollectorRegistry:
    """What is exposed of the metrics, and of the process.

    A console that nobody scrapes does without the library: it takes a twentieth of a start.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Current(Collector):
        """The numbers as they are now."""

        def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily]:
            responses = CounterMetricFamily(
                "barnabas_console_responses", "Responses by their status.", labels=["status"]
            )
            for status, count in sorted(metrics.responses.items()):
                responses.add_metric([str(status)], count)
            streams = GaugeMetricFamily(
                "barnabas_console_streams",
                "Tails, scans and changes that are being shown.",
                value=metrics.stream_count,
            )
            return [responses, streams]

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(Current())
    return registry


async def probe_runner(metrics: ConsoleMetrics, port: int) -> web.AppRunner:
    """`/live`, `/ready` and `/metrics`, served until it is cleaned up. Raises: OSError."""
    from prometheus_client import generate_latest

    registry = registry_of(metrics)

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def numbers(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": _TEXT})

    app = web.Application()
    app.router.add_get("/live", alive)
    app.router.add_get("/ready", alive)
    app.router.add_get("/metrics", numbers)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner

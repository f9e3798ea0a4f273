"""The console's HTTP server: the application, and serving it until it is to stop.

Not here: who may ask (`security/gate.py`), what routes answer (`api/`).

Invariants: no body above `BODY_BYTES_MAX` is read; every response has the headers of
`security/response_headers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from barnabas_client.env import Clock, SystemClock
from barnabas_console.api.routes import api_routes
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.context import ConsoleContext
from barnabas_console.garbage_collection import forget_start_up
from barnabas_console.history.sampler import Sampler
from barnabas_console.kubernetes.api_reader import KubernetesError
from barnabas_console.kubernetes.event_watch import EventWatch
from barnabas_console.metrics import ConsoleMetrics, probe_runner
from barnabas_console.security.gate import Gate
from barnabas_console.security.response_headers import secure
from barnabas_console.settings import NO_LOGIN, ConsoleSettings, ConsoleSettingsError
from barnabas_console.static_assets import StaticAssets, StaticFile
from barnabas_console.viewers import Viewers

BODY_BYTES_MAX: Final = 2 * 1024 * 1024
SHUTDOWN_SECONDS: Final = 1.0
#: The history of an application, for who drives it.
SAMPLER: Final = web.AppKey("sampler", Sampler)
#: Its viewers, likewise.
VIEWERS: Final = web.AppKey("viewers", Viewers)
_METRICS: Final = web.AppKey("metrics", ConsoleMetrics)
_IMMUTABLE: Final = "public, max-age=31536000, immutable"


def make_app(
    settings: ConsoleSettings, connection: ClusterConnection, *, clock: Clock | None = None
) -> web.Application:
    """The application; its clients are closed when it is cleaned up.

    Raises: ConsoleSettingsError for a login that the connection has none for, and for an API server
    that is not there to be read.
    """
    clock = clock or SystemClock()
    if settings.login != NO_LOGIN and not connection.logs_in:
        raise ConsoleSettingsError(
            "a login needs brokers that have one: name SASL_SSL or SASL_PLAINTEXT as"
            " security.protocol, by --command-config FILE"
        )
    sampler = Sampler(connection.admin, connection.principal, clock)
    try:
        context = ConsoleContext(settings, connection, sampler, clock)
    except KubernetesError as error:
        raise ConsoleSettingsError(str(error)) from None
    if context.kubernetes is not None and settings.login == NO_LOGIN:
        sampler.look_beside(EventWatch(context.kubernetes).news)
    app = web.Application(middlewares=Gate(context).middlewares, client_max_size=BODY_BYTES_MAX)
    app[SAMPLER] = sampler
    app[VIEWERS] = context.viewers
    app[_METRICS] = context.metrics
    prefix = settings.path_prefix
    for route in api_routes(context):
        app.router.add_route(route.method, prefix + route.path, route.handler)
    _add_pages(app, StaticAssets(version=context.version, prefix=prefix), prefix)

    async def with_headers(_: web.Request, response: web.StreamResponse) -> None:
        secure(response.headers)

    async def clients(_: web.Application) -> AsyncIterator[None]:
        sweeping = asyncio.get_running_loop().create_task(context.viewers.sweep())
        yield
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        await context.viewers.close()
        if context.provider is not None:
            await context.provider.close()
        if context.kubernetes is not None:
            await context.kubernetes.close()

    async def history(_: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(sampler.run())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    app.on_response_prepare.append(with_headers)
    app.cleanup_ctx.extend([clients, history])
    return app


async def serve(
    settings: ConsoleSettings,
    connection: ClusterConnection,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until `stop` is set; `on_ready` gets the address.

    Raises: OSError where the port cannot be had.
    """
    app = make_app(settings, connection)
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,  # a tail ends with the browser that watched it
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    probes = None
    await runner.setup()
    try:
        if settings.probe_port is not None:
            probes = await probe_runner(app[_METRICS], settings.probe_port)
        await web.TCPSite(runner, settings.host or None, settings.port).start()
        port = runner.addresses[0][1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        on_ready(f"http://{host}:{port}{settings.path_prefix}/")
        forget_start_up()
        await stop.wait()
    finally:
        await runner.cleanup()
        if probes is not None:
            await probes.cleanup()


def _add_pages(app: web.Application, assets: StaticAssets, prefix: str) -> None:
    """The page's files, and the page itself for every path that is none of the API."""

    async def asset(request: web.Request) -> web.Response:
        found = assets.find(request.match_info["version"], request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound
        return _file_response(request, found, _IMMUTABLE)

    async def index(request: web.Request) -> web.Response:
        return _file_response(request, assets.index, "no-store")

    app.router.add_get(f"{prefix}/assets/{{version}}/{{name:.+}}", asset)
    if prefix:
        app.router.add_get(prefix, index)
    app.router.add_get(f"{prefix}/{{path:(?!api/|assets/).*}}", index)


def _file_response(request: web.Request, file: StaticFile, cached: str) -> web.Response:
    headers = {"Cache-Control": cached, "Vary": "Accept-Encoding"}
    body = file.body
    if file.zipped is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = file.zipped
    return web.Response(
        body=body,
        headers=headers,
        content_type=file.content_type,
        charset="utf-8" if file.content_type.startswith("text/") else None,
    )

"""An HTTP server that passes requests on to another one, except those that a fault befalls.

It stands between an arbiter and etcd or the API server, the real ones too. Only swaps suffer from
the faults in the queue; while the store `is_away`, connections end without an answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.support.arbiter_faults import TAKES_EFFECT, Fault

_SHUTDOWN_SECONDS = 0.1


class FaultyGateway:
    """Listens on a free port of the loopback address while it is open."""

    def __init__(
        self,
        target: str,
        is_swap: Callable[[str, str], bool],
        conflict: tuple[int, object],
        *,
        target_authority_file: str | None = None,
    ) -> None:
        """`is_swap` gets method and path; `conflict` is how the store tells of one."""
        self.target = target
        self.is_away = False
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str, int]] = []  # method, path with query, status; 0: none
        self._is_swap = is_swap
        self._conflict = conflict
        self._authority_file = target_authority_file
        self._late: list[tuple[web.Request, bytes]] = []
        self._closing = asyncio.Event()
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        connector = None
        if self._authority_file is not None:
            import ssl

            context = ssl.create_default_context(cafile=self._authority_file)
            connector = aiohttp.TCPConnector(ssl=context)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        await self._runner.cleanup()
        await self._session.close()

    async def let_late_arrive(self) -> None:
        """Pass on the swaps that were held up, in order; nobody hears the answers."""
        while self._late:
            await self._pass_on(*self._late.pop(0))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = None
        if not self.is_away and self.faults and self._is_swap(request.method, request.path):
            fault = self.faults.popleft()
        answer = await self._answer(request, body, fault)
        status = 0 if answer is None else answer.status
        self.requests.append((request.method, request.path_qs, status))
        if answer is not None:
            return answer
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _answer(
        self, request: web.Request, body: bytes, fault: Fault | None
    ) -> web.Response | None:
        if self.is_away:
            return None
        if fault is None:
            return await self._pass_on(request, body)
        if fault in TAKES_EFFECT:
            await self._pass_on(request, body)
        match fault:
            case Fault.LOST_REQUEST | Fault.LOST_REPLY:
                return None
            case Fault.SILENT_REQUEST | Fault.SILENT_REPLY | Fault.LATE:
                if fault is Fault.LATE:
                    self._late.append((request, body))
                await self._closing.wait()
                return None
            case Fault.ERROR_BEFORE | Fault.ERROR_AFTER:
                return web.json_response({"message": "injected"}, status=500)
            case Fault.THROTTLED:
                return web.json_response(
                    {"message": "injected"}, status=429, headers={"Retry-After": "1"}
                )
            case Fault.FALSE_CONFLICT | Fault.OWN_CONFLICT:
                status, document = self._conflict
                return web.json_response(document, status=status)

    async def _pass_on(self, request: web.Request, body: bytes) -> web.Response:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("Authorization", "Accept", "Content-Type")
        }
        try:
            async with self._session.request(
                request.method, self.target + request.path_qs, data=body, headers=headers
            ) as reply:
                return web.Response(
                    body=await reply.read(),
                    status=reply.status,
                    content_type=reply.content_type,
                )
        except aiohttp.ClientError as error:
            return web.json_response({"message": str(error)}, status=502)

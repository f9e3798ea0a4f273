"""An API server that refuses writes: it stands before another one and passes on the rest.

    async with RefusingApi(server.address, (409, 422, 500, 0)) as refusing: ...

The first attempts at each write, by method and path, meet these codes in turn (0 closes the
connection); the attempts after that pass, as reads, watches and Leases always do.
"""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.support.fake_kubernetes import kubeconfig_of

_READS = frozenset({"GET", "HEAD"})
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
_RESOURCE = re.compile(
    r"^/(?:api/[^/]+|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/))?/([^/]+)(?:/[^/]+(/[^/]+)?)?$"
)


class RefusingApi:
    """Serves plain HTTP on the loopback address while it is open."""

    def __init__(self, upstream: str, codes: Sequence[int]) -> None:
        self._upstream = upstream
        self._codes = codes
        # Only writes whose path has this in it are refused.
        self.only = ""
        self._attempts: Counter[tuple[str, str]] = Counter()
        # Which codes were answered to which kind of write, such as `PATCH topics/status`.
        self.refused: dict[str, set[int]] = defaultdict(set)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        self._client = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        )
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._client.close()

    def write_kubeconfig(self, path: Path, token: str = "test") -> Path:
        """A kubeconfig that leads here."""
        kubeconfig = json.loads(kubeconfig_of(self.address))
        kubeconfig["users"][0]["user"]["token"] = token
        path.write_text(json.dumps(kubeconfig))
        return path

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        code = self._refusal(request)
        if code is None:
            return await self._pass_on(request)
        if code == 0:
            assert request.transport is not None
            request.transport.abort()
        document = {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": code,
            "message": "refused by the test",
        }
        return web.json_response(document, status=code or 500)

    def _refusal(self, request: web.Request) -> int | None:
        if request.method in _READS or "/leases" in request.path or self.only not in request.path:
            return None
        place = request.method, request.path
        attempt = self._attempts[place]
        self._attempts[place] += 1
        if attempt >= len(self._codes):
            return None
        found = _RESOURCE.match(request.path)
        assert found is not None, request.path
        self.refused[f"{request.method} {found[1]}{found[2] or ''}"].add(self._codes[attempt])
        return self._codes[attempt]

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = [one for one in request.headers.items() if one[0].lower() not in _HOP_BY_HOP]
        asked = self._client.request(
            request.method,
            self._upstream + request.raw_path,
            headers=headers,
            data=await request.read() or None,
        )
        response = web.StreamResponse()
        try:
            async with asked as answer:
                response.set_status(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in _HOP_BY_HOP:
                        response.headers.add(name, value)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
        except (ConnectionError, aiohttp.ClientError, asyncio.CancelledError):
            # One of the two sides has gone, as in the end of each watch.
            if not response.prepared:
                raise
        return response

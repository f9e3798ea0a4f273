"""An API server that refuses: it stands before the lab's and passes on what it does not refuse.

Of the writes of each object every second one is refused: as a conflict (409), as invalid (422) and
with an error of the server (500) in turn, and not all objects begin with the same. Reads and
watches always pass. It has the API server's own certificate, so nobody who speaks to it can tell.
"""

import asyncio
import ssl
import threading
import zlib
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

# The bridge of the lab: pods reach it, and the API server's certificate names it.
ADDRESS = "10.244.0.1"
SERVER = f"https://{ADDRESS}:6443"
READS = frozenset({"GET", "HEAD"})
REFUSALS = ((409, "Conflict"), (422, "Invalid"), (500, "InternalError"))
# They belong to one connection and not to what is passed over it.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
_START_SECONDS = 10


class FaultyApi:
    """Serves from entering to leaving, in a thread; `state` is the lab's folder."""

    def __init__(self, state: Path) -> None:
        keys = state / "pki"
        self.port = 0
        self.refused: Counter[tuple[str, int]] = Counter()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
        self._trusted = ssl.create_default_context(cafile=keys / "ca.crt")
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._begun = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def refusals_of(self, resource: str) -> dict[int, int]:
        """How often writes of a resource, as in `topics/status`, were refused, by code."""
        return {code: n for (name, code), n in sorted(self.refused.items()) if name == resource}

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(_START_SECONDS), "it does not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        connector = TCPConnector(ssl=self._trusted, limit=0)
        timeout = ClientTimeout(total=None, connect=10)
        async with ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as up:
            self._server = up
            application = web.Application(client_max_size=2**24)
            application.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
            await runner.setup()
            site = web.TCPSite(runner, ADDRESS, 0, ssl_context=self._context)
            await site.start()
            self.port = runner.addresses[0][1]
            self._begun.set()
            await self._end.wait()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request.method, request.path)
        if refusal is not None:
            code, reason = refusal
            status = {
                "apiVersion": "v1",
                "kind": "Status",
                "status": "Failure",
                "reason": reason,
                "code": code,
                "message": "refused by the test",
            }
            return web.json_response(status, status=code)
        return await self._pass_on(request)

    def _refusal(self, method: str, path: str) -> tuple[int, str] | None:
        """What this write meets; None lets it through."""
        if method in READS or path.endswith("/leases") or "/leases/" in path:
            # Who leads is another matter: without its Lease an operator may do nothing at all.
            return None
        attempt = self._attempts[(method, path)]
        self._attempts[(method, path)] += 1
        if attempt % 2:
            return None
        refusal = REFUSALS[(zlib.crc32(path.encode()) + attempt // 2) % len(REFUSALS)]
        self.refused[(resource_of(path), refusal[0])] += 1
        return refusal

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in _HOP_BY_HOP
        ]
        body = await request.read()
        asked = self._server.request(
            request.method, SERVER + request.raw_path, headers=headers, data=body or None
        )
        async with asked as answer:
            response = web.StreamResponse(status=answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            # As it comes: an event of a watch is not held back.
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def resource_of(path: str) -> str:
    """The resource in a path of the API, with its subresource, as in `topics/status`."""
    words = path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    if words[0] == "namespaces" and len(words) > 2:
        words = words[2:]
    return "/".join([words[0], *words[2:]])

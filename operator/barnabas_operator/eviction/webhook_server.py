"""The HTTPS port at which the API server asks about evictions.

It serves every replica of the operator, from its start to its end. While there is no certificate
connections fail, which the API server is told to ignore.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from aiohttp import web

from barnabas_operator.eviction.evictions import Evictions
from barnabas_operator.eviction.review import ReviewError, let_through, read_review, uid_of_request
from barnabas_operator.eviction.serving_certificate import ServingCertificate

logger = logging.getLogger(__name__)

PATH = "/evictions"
# How soon a new certificate is served; the kubelet itself takes about a minute.
_REFRESH_SECONDS = 10.0
# A review of an eviction has about 1 KiB.
_BODY_BYTES_MAX = 256 * 1024


class WebhookServer:
    """Listens from `start` to `close`."""

    def __init__(
        self,
        evictions: Evictions,
        certificates: Path,
        *,
        host: str,
        port: int,
        refresh_seconds: float = _REFRESH_SECONDS,
    ) -> None:
        """Take the folder with the certificate's files, which may come later."""
        self._evictions = evictions
        self._address = host, port
        self._refresh_seconds = refresh_seconds
        self._runner: web.AppRunner | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self.certificate = ServingCertificate(certificates)

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._runner is not None and bool(self._runner.addresses)

    @property
    def port(self) -> int:
        """The port that was taken."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen. Raises: OSError."""
        application = web.Application(client_max_size=_BODY_BYTES_MAX)
        application.add_routes([web.post(PATH, self._review)])
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        if not self.certificate.refresh():
            logger.warning("there is no certificate for the webhook yet: evictions go on without")
        host, port = self._address
        context = self.certificate.context
        await web.TCPSite(self._runner, host or None, port, ssl_context=context).start()
        self._refreshing = asyncio.create_task(self._refresh())

    async def close(self) -> None:
        """Stop listening; may be repeated."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
            self._refreshing = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(self._refresh_seconds)
            self.certificate.refresh()

    async def _review(self, request: web.Request) -> web.Response:
        try:
            document = json.loads(await request.read())
            review = read_review(document)
        except (ReviewError, ValueError) as error:
            return web.Response(status=400, text=f"{error}\n")
        if review is None:
            return web.json_response(let_through(uid_of_request(document)))
        return web.json_response(await self._evictions.answer(review))

"""A response that goes on, as events: `event: NAME`, `data: JSON` (CON-160).

Invariant: who sends waits while the browser does not read, so that what is unsent stays small
(CON-161), and no longer than `SEND_SECONDS_MAX`; a browser that has gone is a ConnectionResetError
for who sends, or cancels the handler.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

SEND_SECONDS_MAX: Final = 30
"""A browser that does not read for so long is let go."""


class EventStream:
    """The events of one response."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        )

    async def begin(self) -> None:
        """Send the headers; errors before this can still be a response of their own."""
        await self._response.prepare(self._request)

    async def send(self, name: str, data: Any) -> None:
        """Send one event. Raises: ConnectionResetError, TimeoutError."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await self._response.write(f"event: {name}\ndata: {text}\n\n".encode(errors="replace"))

    @property
    def response(self) -> web.StreamResponse:
        """The response, for a stream whose browser has gone."""
        return self._response

    async def end(self) -> web.StreamResponse:
        """The finished response. Raises: as `send`."""
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await self._response.write_eof()
        return self._response

    def let_go(self) -> None:
        """End the connection of a browser that does not read, or has gone."""
        if self._request.transport is not None:
            self._request.transport.abort()

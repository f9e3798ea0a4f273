"""A response that goes on, as events: `event: NAME`, `data: JSON` (CON-160).

Invariant: who sends waits while the browser does not read, so that what is unsent stays small
(CON-161); a browser that has gone is a ConnectionResetError for who sends, or cancels the handler.
"""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


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
        """Send one event. Raises: ConnectionResetError."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
        await self._response.write(f"event: {name}\ndata: {text}\n\n".encode(errors="replace"))

    @property
    def response(self) -> web.StreamResponse:
        """The response, for a stream whose browser has gone."""
        return self._response

    async def end(self) -> web.StreamResponse:
        """The finished response."""
        await self._response.write_eof()
        return self._response

"""A response in parts, for as long as the browser reads them (CON-161).

Invariant: who sends waits while the browser does not read, so that what is unsent stays small, and
no longer than `SEND_SECONDS_MAX`; a browser that has gone is a ConnectionResetError for who sends,
or cancels the handler. What is let go before its end does not look whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from barnabas_console.records.export_lines import CONTENT_TYPES

SEND_SECONDS_MAX: Final = 30
"""A browser that does not read for so long is let go."""


class LongResponse:
    """One response, from its headers to its end."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self.response = web.StreamResponse(headers=headers)

    async def begin(self) -> None:
        """Send the headers; errors before this can still be a response of their own."""
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send a part. Raises: ConnectionResetError, TimeoutError."""
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await self.response.write(data)

    async def end(self) -> web.StreamResponse:
        """The finished response. Raises: as `write`."""
        async with asyncio.timeout(SEND_SECONDS_MAX):
            await self.response.write_eof()
        return self.response

    def let_go(self) -> None:
        """End the connection of a browser that does not read, or has gone."""
        if self._request.transport is not None:
            self._request.transport.abort()


def export_response(request: web.Request, how: str, name: str) -> LongResponse:
    """A file to be saved under a name, in one of the formats of exports."""
    return LongResponse(
        request,
        {
            "Content-Type": f"{CONTENT_TYPES[how]}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="{name}.{how}"',
        },
    )

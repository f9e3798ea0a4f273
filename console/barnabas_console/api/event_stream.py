"""A response that goes on, as events: `event: NAME`, `data: JSON` (CON-160)."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from barnabas_console.api.long_response import LongResponse


class EventStream(LongResponse):
    """The events of one response."""

    def __init__(self, request: web.Request) -> None:
        super().__init__(request, {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})

    async def send(self, name: str, data: Any) -> None:
        """Send one event. Raises: as `write`."""
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
        await self.write(f"event: {name}\ndata: {text}\n\n".encode(errors="replace"))

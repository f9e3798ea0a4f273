"""Bodies of requests: JSON objects, and their fields with their types checked.

Invariants: whatever a body holds, what is refused is refused as 400 in words; none takes long to
come or to be read.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from barnabas_console.api.responses import ApiError
from barnabas_console.records.json_text import VALUES_MAX, has_many_values

READ_SECONDS_MAX: Final = 30
"""So long a body may take: who sends it slowly keeps others from asking."""


async def json_object(request: web.Request) -> dict[str, Any]:
    """The body as an object. Raises: ApiError."""
    if request.content_type != "application/json":
        raise ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "send JSON, as application/json")
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            text = (await request.read()).decode()
        if has_many_values(text):
            raise ApiError(400, "BAD_REQUEST", f"the body has more than {VALUES_MAX:,} values")
        found = json.loads(text)
    except TimeoutError:
        raise ApiError(408, "REQUEST_TIMEOUT", "the body did not come in time") from None
    except (ValueError, RecursionError):
        raise ApiError(400, "BAD_REQUEST", "the body is no JSON") from None
    if not isinstance(found, dict):
        raise ApiError(400, "BAD_REQUEST", "the body is no JSON object")
    return found


def text_field(body: dict[str, Any], name: str) -> str:
    """A field that must be text. Raises: ApiError."""
    value = body.get(name)
    if not isinstance(value, str):
        raise ApiError(400, "BAD_REQUEST", f"'{name}' must be text")
    return value

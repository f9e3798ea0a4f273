"""Bodies of HTTP responses that are read up to a bound: of a longer one no more is held."""

from __future__ import annotations

from typing import Final

import aiohttp

_CHUNK_BYTES: Final = 64 * 1024


async def body_of(response: aiohttp.ClientResponse, bytes_max: int) -> bytes | None:
    """The whole body; None where it is longer. Raises: aiohttp's errors."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > bytes_max:
            return None
    return bytes(body)

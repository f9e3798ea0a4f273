"""Watching a store by reading it from time to time, for stores that do not announce changes.

A change and a change back between two readings is not seen, unless the token differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from barnabas_broker.arbiter.arbiter import Stored


async def changes(
    read: Callable[[], Awaitable[Stored]], poll_interval_ms: float
) -> AsyncIterator[Stored]:
    """What is stored now, and again each time it differs from the reading before.

    Raises: what `read` raises.
    """
    seen: Stored | None = None
    while True:
        stored = await read()
        if stored != seen:
            seen = stored
            yield stored
        await asyncio.sleep(poll_interval_ms / 1000)

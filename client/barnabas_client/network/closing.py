"""Shutting down in spite of being cancelled.

A `close` that is cancelled half-way would leave tasks and sockets behind that nobody owns any more.
So the part of it that lets go of things, which takes a bounded time, runs to its end, and the
cancellation is raised after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


async def run_to_end(work: Coroutine[None, None, None]) -> None:
    """Await `work`, which must be of bounded time; a cancellation takes effect when it has ended.

    Raises: asyncio.CancelledError if this was cancelled meanwhile, else what `work` raises.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            break  # raised below
    if cancelled is not None:
        raise cancelled
    task.result()

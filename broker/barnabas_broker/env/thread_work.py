"""Waiting for work in a thread, which nobody can call back.

A task that is cancelled while a thread works for it must not go on before the thread has ended: it
would let go of its lock, or begin the next write of the same file, under the thread's hands. So the
cancellation waits. The price is that a timeout over disk work is over only when the work is.

Not here: the threads (`disk`), and what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


async def outlast(work: asyncio.Future[Result], try_cancel: Callable[[], bool]) -> Result:
    """The result of work; if the caller is cancelled, that is raised once the work has ended.

    `try_cancel` takes back work that has not begun and returns whether it could; what has begun
    goes on to its end, however often the caller is cancelled.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not try_cancel():
            await _end_of(work)
        raise


async def _end_of(work: asyncio.Future[Result]) -> None:
    """Return when work has ended, whatever comes meanwhile; its failure is only logged."""
    while not work.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((work,))
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.warning("work in a thread failed, and nobody waits for it: %r", error)

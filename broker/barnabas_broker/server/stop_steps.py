"""Runs the steps of a stop one after the other, whatever becomes of each.

A broker that stops because of a failure may find more broken on its way, a disk that answers no
more, say. Its steps are limited in time: it has to be gone for others to take over (STOP-8).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

logger = logging.getLogger(__name__)

FAILED_STEP_SECONDS_MAX: Final = 20.0
"""More than any step takes that is not stuck; what is cut short is found by the next recovery."""


async def run_stop_steps(
    steps: Iterable[Callable[[], Awaitable[None]]], has_failed: Callable[[], bool]
) -> Exception | None:
    """Run all steps; returns the first error of any, which kept none of the others from running.

    A step is waited for without limit, unless the broker has failed before it began.
    """
    first: Exception | None = None
    for step in steps:
        limited = first is not None or has_failed()
        try:
            await (_run_limited(step) if limited else step())
        except Exception as error:
            logger.exception("a step of the stop failed: %s", step.__qualname__)
            first = first or error
    return first


async def _run_limited(step: Callable[[], Awaitable[None]]) -> None:
    """Run a step, or leave it behind when its time is over. Raises: TimeoutError.

    A step that waits for a thread ends only with it, so nobody waits for it once it is cancelled.
    """
    work = asyncio.ensure_future(step())
    try:
        done, _ = await asyncio.wait((work,), timeout=FAILED_STEP_SECONDS_MAX)
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not done:
        work.cancel()
        work.add_done_callback(_left_behind)
        raise TimeoutError(f"not done after {FAILED_STEP_SECONDS_MAX} s")
    work.result()


def _left_behind(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        logger.error("a step that was left behind failed", exc_info=error)

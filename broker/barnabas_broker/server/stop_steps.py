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
            async with asyncio.timeout(FAILED_STEP_SECONDS_MAX if limited else None):
                await step()
        except Exception as error:
            logger.exception("a step of the stop failed: %s", step.__qualname__)
            first = first or error
    return first

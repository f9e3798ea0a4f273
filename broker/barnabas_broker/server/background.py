"""Work of a broker that nobody waits for: remembered until it ends, cancelled by the stop.

A failure is logged: it must not vanish with the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """The tasks, in the order of their start, so that a stop is the same each time."""

    def __init__(self) -> None:
        """Make an empty one."""
        self._tasks: dict[asyncio.Task[None], None] = {}

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    async def cancel(self) -> None:
        """End all of them; returns when they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a background task failed", exc_info=task.exception())

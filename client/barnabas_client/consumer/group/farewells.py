"""Requests to leave a group whose callers were cancelled: only `close` waits for the responses."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

# What `close` gives them: without them the group waits for the session of a member that is gone.
FINISH_SECONDS: Final = 0.5


class Farewells:
    """Members that leave in the background, as tasks that end by themselves or with `finish`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, leaving: Coroutine[Any, Any, None]) -> None:
        """Let this go on by itself."""
        task = asyncio.create_task(leaving, name="leave group")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait a moment for all of them, and give up those that take longer."""
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=FINISH_SECONDS)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

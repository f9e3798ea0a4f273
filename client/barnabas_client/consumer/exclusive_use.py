"""One task at a time uses a consumer: a second one gets an error at once, instead of waiting.

Source: CON-1. Not a lock: two users of one consumer are a mistake of the program, because
each would change positions and assignment under the other. The task that is inside may call again,
as a rebalance listener does.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from barnabas_client.errors import IllegalStateError


class ExclusiveUse:
    """A context manager for calls that wait, and a check for those that do not."""

    __slots__ = ("_depth", "_free", "_owner")

    def __init__(self) -> None:
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0
        self._free: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        """Claim the consumer for the current task.

        Raises: IllegalStateError if another one has it.
        """
        task = asyncio.current_task()
        if self._owner is not None and self._owner is not task:
            raise self._concurrent_call()
        self._owner = task
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the consumer, when the outermost call ends."""
        self._depth -= 1
        if self._depth:
            return
        self._owner = None
        if self._free is not None and not self._free.done():
            self._free.set_result(None)

    def check(self) -> None:
        """Raise IllegalStateError if another task is inside."""
        if self._owner is not None and self._owner is not _current_task():
            raise self._concurrent_call()

    def check_not_nested(self) -> None:
        """Raise IllegalStateError if the task was inside before: a listener cannot poll."""
        if self._depth > 1:
            raise IllegalStateError(
                "a rebalance listener may commit, seek and pause, but not read or unsubscribe:"
                " do that after poll() has returned"
            )

    @property
    def is_taken_by_other(self) -> bool:
        """Whether another task is inside."""
        return self._owner is not None and self._owner is not _current_task()

    async def wait_until_free(self) -> None:
        """Return when the task that is inside has left."""
        while self._owner is not None:
            self._free = asyncio.get_running_loop().create_future()
            await self._free

    def _concurrent_call(self) -> IllegalStateError:
        name = "another task" if self._owner is None else f"the task {self._owner.get_name()!r}"
        return IllegalStateError(
            f"the consumer is in use by {name}: only wakeup() and close() may be called beside it"
        )


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None

"""Calls to brokers that several requests share: who asks the same within a moment gets one answer.

Invariants: a call goes on when one of those that wait for it goes away; errors are given to all
that wait and are not kept, nor is a result that is too old; at most `ENTRIES_MAX` results are
kept, the oldest goes first (CON-161).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from barnabas_client.env import Clock

ENTRIES_MAX: Final = 1_000
SHARED_MS: Final = 2_000

T = TypeVar("T")


@dataclass(slots=True)
class _Entry:
    task: asyncio.Task[Any]
    until_ms: int


class SharedCalls:
    """The calls under way and the results that still hold."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Hashable, _Entry] = {}

    async def shared(
        self,
        key: Hashable,
        make: Callable[[], Coroutine[Any, Any, T]],
        *,
        ttl_ms: int = SHARED_MS,
    ) -> T:
        """The result of `make`, or of the same call if that began at most `ttl_ms` ago.

        A call that is still under way is shared however long ago it began.
        """
        entry = self._entries.get(key)
        if entry is not None and entry.task.done() and self._is_over(entry):
            entry = None
        if entry is None:
            entry = _Entry(
                asyncio.get_running_loop().create_task(make()),
                self._clock.monotonic_ms() + ttl_ms,
            )
            self._keep(key, entry)
        return await asyncio.shield(entry.task)

    def forget(self, key: Hashable | None = None) -> None:
        """Ask anew next time: one key, or all after a change."""
        for each in list(self._entries) if key is None else [key]:
            entry = self._entries.get(each)
            if entry is not None and entry.task.done():
                del self._entries[each]
            elif entry is not None:
                entry.until_ms = self._clock.monotonic_ms()

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = [entry.task for entry in self._entries.values() if not entry.task.done()]
        self._entries.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_over(self, entry: _Entry) -> bool:
        return (
            entry.task.cancelled()
            or entry.task.exception() is not None
            or self._clock.monotonic_ms() >= entry.until_ms
        )

    def _keep(self, key: Hashable, entry: _Entry) -> None:
        over = [
            each for each, one in self._entries.items() if one.task.done() and self._is_over(one)
        ]
        for each in (key, *over):
            self._entries.pop(each, None)
        if len(self._entries) >= ENTRIES_MAX:
            over = [each for each, one in self._entries.items() if one.task.done()]
            for each in over[: max(1, len(over) // 4)]:
                del self._entries[each]
        self._entries[key] = entry
        entry.task.add_done_callback(_retrieve)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Nobody may be there any more who would hear of the error."""
    if not task.cancelled():
        task.exception()

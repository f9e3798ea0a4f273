"""Doing one thing for many items, a few at a time: a thousand topics are no thousand tasks, and no
long stretch of work during which nothing else runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_AT_A_TIME = 8
# What passes do with an item takes up to a tenth of a millisecond.
_PORTION = 25


async def for_each(
    items: Iterable[T], action: Callable[[T], Awaitable[None]], *, at_a_time: int = _AT_A_TIME
) -> None:
    """Return when the action is done for all items.

    Raises: what the action raises first; items that are under way then are cancelled.
    """
    remaining: Iterator[T] = iter(items)

    async def work() -> None:
        for item in remaining:
            await action(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_a_time):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def in_portions(items: Iterable[T], *, size: int = _PORTION) -> AsyncIterator[T]:
    """The items, with a turn for everybody else after each few of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)

"""Repeats a call on errors that may pass, until its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from barnabas_client.env import Environment
from barnabas_client.errors import RetriableError, TimedOutError

T = TypeVar("T")


class Backing(Protocol):
    """A client: its clock, and how long it waits before a repetition."""

    environment: Environment

    def backoff_ms(self, attempt: int) -> int:
        """The wait before a repetition, counting attempts from 0."""
        ...


async def retrying(client: Backing, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int) -> T:
    """Await `attempt()` anew on each RetriableError, with backoff.

    At the deadline the last error is raised; an attempt that is still running is cancelled, since
    a silent broker would hold it up for the whole request timeout.
    """
    clock = client.environment.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    failures = 0
    last: RetriableError | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000) as limit:
            while True:
                try:
                    return await attempt()
                except RetriableError as error:
                    wait_ms = client.backoff_ms(failures)
                    if clock.monotonic_ms() + wait_ms >= deadline_ms:
                        raise
                    last = error
                failures += 1
                await asyncio.sleep(wait_ms / 1000)
    except TimeoutError:
        if not limit.expired():
            raise
        raise last or TimedOutError(f"no response within {timeout_ms} ms") from None

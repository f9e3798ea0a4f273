"""Repeats a call on errors that may pass, until its time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas_client.errors import RetriableError

if TYPE_CHECKING:
    from barnabas_client.network.client import Client

T = TypeVar("T")


async def retrying(client: Client, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int) -> T:
    """Await `attempt()` anew on each RetriableError, with backoff; raise the last at the deadline.

    A running attempt is not interrupted: it has its own request timeout.
    """
    clock = client.environment.clock
    deadline_ms = clock.monotonic_ms() + timeout_ms
    failures = 0
    while True:
        try:
            return await attempt()
        except RetriableError:
            wait_ms = client.backoff_ms(failures)
            if clock.monotonic_ms() + wait_ms >= deadline_ms:
                raise
        failures += 1
        await asyncio.sleep(wait_ms / 1000)

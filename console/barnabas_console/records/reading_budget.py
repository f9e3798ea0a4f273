"""What reading records may take of the cluster and of this process: bytes a second, and seats.

Source: CON-136. Invariants: all readings of a process together stay below the rate; a seat that was
taken is given back however its reading ends; where people log in, nobody has more than half of the
seats, so that one of them cannot keep out all others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from barnabas_client.env import Clock

BYTES_PER_SECOND: Final = 20 * 1024 * 1024
SCANS_MAX: Final = 4
TAILS_MAX: Final = 20
SCANS_OF_VIEWER_MAX: Final = 2
TAILS_OF_VIEWER_MAX: Final = 10


class NoSeatError(Exception):
    """As many read already as may."""


class ReadingBudget:
    """Shared by all readings of a process."""

    def __init__(self, clock: Clock, *, bytes_per_second: int = BYTES_PER_SECOND) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        # Until when what was read is paid for; it may lie in the future.
        self._paid_until_ms = 0.0
        self._taken = Counter[str]()
        self._taken_by = Counter[tuple[str, str]]()

    async def spend(self, size_bytes: int) -> None:
        """Account for what was read; wait while it is above the rate."""
        now_ms = self._clock.monotonic_ms()
        # What was not used in the last second is lost.
        self._paid_until_ms = max(self._paid_until_ms, now_ms - 1000.0)
        self._paid_until_ms += size_bytes * 1000 / self._rate
        ahead_ms = self._paid_until_ms - now_ms
        if ahead_ms > 0:
            await asyncio.sleep(ahead_ms / 1000)

    @contextmanager
    def scan(self, identity: str) -> Iterator[None]:
        """Hold a seat of a scan or an export for a viewer. Raises: NoSeatError."""
        with self._seat("scans", SCANS_MAX, identity, SCANS_OF_VIEWER_MAX):
            yield

    @contextmanager
    def tail(self, identity: str) -> Iterator[None]:
        """Hold a seat of a tail for a viewer. Raises: NoSeatError."""
        with self._seat("tails", TAILS_MAX, identity, TAILS_OF_VIEWER_MAX):
            yield

    @contextmanager
    def _seat(self, kind: str, seats_max: int, identity: str, own_max: int) -> Iterator[None]:
        """Without a login there is one viewer, whose identity is empty: all seats are his."""
        if self._taken[kind] >= seats_max:
            raise NoSeatError(f"{seats_max} {kind} run already: stop one, or try again")
        if identity and self._taken_by[kind, identity] >= own_max:
            raise NoSeatError(f"{own_max} of your {kind} run already: stop one")
        self._taken[kind] += 1
        self._taken_by[kind, identity] += 1
        try:
            yield
        finally:
            self._taken[kind] -= 1
            self._taken_by[kind, identity] -= 1
            if not self._taken_by[kind, identity]:
                del self._taken_by[kind, identity]

"""Looks at groups again and again for a while: for commands, which have no history."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from barnabas_client.env import Clock
from barnabas_client.facts.group_observation import GroupObservation
from barnabas_client.facts.group_watch import GroupMovement, GroupWatch

_INTERVAL_MS = 2_000

Observe = Callable[[], Awaitable[Sequence[GroupObservation]]]


async def watch_groups(
    observe: Observe, duration_ms: int, clock: Clock
) -> list[tuple[GroupObservation, GroupMovement]]:
    """The groups as they are at the end, and how they moved; one look where the duration is 0.

    Raises: what observing them raises.
    """
    watch = GroupWatch()
    deadline_ms = clock.monotonic_ms() + duration_ms
    while True:
        now_ms = clock.monotonic_ms()
        seen = [(group, watch.observe(group, now_ms)) for group in await observe()]
        rest_ms = deadline_ms - clock.monotonic_ms()
        if rest_ms <= 0:
            return seen
        await asyncio.sleep(min(rest_ms, _INTERVAL_MS) / 1000)

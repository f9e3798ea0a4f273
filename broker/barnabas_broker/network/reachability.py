"""Which nodes refuse connections, and since when: the quickest sign that a process has died.

A refusal comes from the node's machine: it runs, and nobody listens there. Silence may mean
anything (a lost network, a paused machine) and is never taken for a refusal. Nodes are probed only
while they are suspected, by connecting and closing at once; who accepts is not suspected any more.

Source: `broker.fence.on.refused.ms`, LEAD-11, section 2 of the architecture.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import Network

PROBE_INTERVAL_SECONDS = 0.05
PROBE_SECONDS_MAX = 1.0
"""A connection that takes longer counts as silence."""
SLOW_AFTER_MS = 10_000
SLOW_INTERVAL_SECONDS = 0.5
"""Who has refused or kept silent for long may stay away: it is probed less often."""

Address = tuple[str, int]


class Reachability:
    """Probes suspected nodes."""

    def __init__(
        self, network: Network, clock: Clock, *, resolve: Callable[[int], Address | None]
    ) -> None:
        """Make one for a broker; a node whose address is not known is not probed any more."""
        self.on_refused_change: list[Callable[[int], None]] = []
        """Called with a node that begins to refuse, or ends to."""
        self._network = network
        self._clock = clock
        self._resolve = resolve
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._refused_since_ms: dict[int, int] = {}
        self._is_closed = False

    def suspect(self, node_id: int) -> None:
        """Probe a node until it accepts: a connection of or with it was lost."""
        if not self._is_closed and node_id not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._probe_until_accepted(node_id))
            self._tasks[node_id] = task

    def is_suspected(self, node_id: int) -> bool:
        """Whether the node is being probed."""
        return node_id in self._tasks

    def refused_since_ms(self, node_id: int) -> int | None:
        """Since when every probe was refused, of the monotonic clock; None if the last was not."""
        return self._refused_since_ms.get(node_id)

    def forget(self, node_id: int) -> None:
        """Stop to probe a node, which has sent something or is none of ours any more."""
        task = self._tasks.pop(node_id, None)
        if task is not None:
            task.cancel()
        self._set_refused(node_id, False)

    async def close(self) -> None:
        """Stop to probe."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _probe_until_accepted(self, node_id: int) -> None:
        started_ms = self._clock.monotonic_ms()
        while (address := self._resolve(node_id)) is not None:
            try:
                async with asyncio.timeout(PROBE_SECONDS_MAX):
                    transport, _ = await self._network.connect(asyncio.Protocol, *address)
                transport.close()
                break
            except ConnectionRefusedError:
                self._set_refused(node_id, True)
            except (OSError, ValueError, OverflowError):
                # Silence, a route that is gone, a name or port that is not known or is none: no
                # refusal.
                self._set_refused(node_id, False)
            is_slow = self._clock.monotonic_ms() - started_ms > SLOW_AFTER_MS
            await asyncio.sleep(SLOW_INTERVAL_SECONDS if is_slow else PROBE_INTERVAL_SECONDS)
        if self._tasks.get(node_id) is asyncio.current_task():
            del self._tasks[node_id]
            self._set_refused(node_id, False)

    def _set_refused(self, node_id: int, is_refused: bool) -> None:
        if is_refused == (node_id in self._refused_since_ms):
            return
        if is_refused:
            self._refused_since_ms[node_id] = self._clock.monotonic_ms()
        else:
            del self._refused_since_ms[node_id]
        for callback in self.on_refused_change:
            callback(node_id)

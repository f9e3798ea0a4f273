"""Looks after the sessions of brokers while this node is the controller: one task.

It sleeps until the first broker would be lost, and hands lost ones to the controller's queue; it
decides nothing about them. Source: REG-5, CTL-8.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas_broker.controller.broker_sessions import BrokerSessions
from barnabas_broker.env.clock import Clock
from barnabas_broker.metadata.connection_refusals import ConnectionRefusals
from barnabas_broker.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_MS_MAX: Final = 1000
# A look that comes later than this was held up by a pause of this process.
_LATE_MS_MIN: Final = 500


class BrokerSessionMonitor:
    """Finds the brokers that are lost."""

    def __init__(
        self,
        sessions: BrokerSessions,
        refused: ConnectionRefusals,
        clock: Clock,
        *,
        image: Callable[[], MetadataImage],
        fence: Callable[[int], None],
    ) -> None:
        """`fence` is called with a lost broker, at every look until the image says it is fenced."""
        self._sessions = sessions
        self._refused = refused
        self._clock = clock
        self._image = image
        self._fence = fence
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._refused.on_refused_change.append(self._refused_changed)
        self._task = asyncio.create_task(self._run(), name="broker sessions")

    def stop(self) -> None:
        """Look no more; safe at any time."""
        if self._refused_changed in self._refused.on_refused_change:
            self._refused.on_refused_change.remove(self._refused_changed)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _refused_changed(self, node_id: int) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            now_ms = self._clock.monotonic_ms()
            try:
                planned_ms = self._look(now_ms)
            except Exception:
                # Without this task no broker would ever be fenced, and nothing would fail over.
                logger.exception("the sessions of brokers could not be looked at")
                planned_ms = now_ms + _LOOK_INTERVAL_MS_MAX
            try:
                async with asyncio.timeout(max(planned_ms - self._clock.monotonic_ms(), 1) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                late_ms = self._clock.monotonic_ms() - planned_ms
                if late_ms >= _LATE_MS_MIN:
                    logger.warning("this process was held up for %d ms", late_ms)
                    self._sessions.pardon(late_ms)

    def _look(self, now_ms: int) -> int:
        """Hand over who is lost; returns when to look again."""
        since = self._refused.refused_since_ms
        live = []
        for broker in self._image().brokers.values():
            if broker.fenced:
                continue
            if self._sessions.loss(broker.node_id, since, now_ms) is None:
                live.append(broker.node_id)
            else:
                self._fence(broker.node_id)
        next_ms = self._sessions.next_loss_ms(live, since)
        latest_ms = now_ms + _LOOK_INTERVAL_MS_MAX
        return latest_ms if next_ms is None else min(next_ms, latest_ms)

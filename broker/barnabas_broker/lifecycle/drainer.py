"""Runs the drain of one broker: looks at what is left, tells the controller, waits for the end.

What a look means is decided in `drain`; what the controller is told, in
`broker_lifecycle_manager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

from barnabas_broker.env.clock import Clock
from barnabas_broker.lifecycle.broker_lifecycle_manager import BrokerLifecycleManager
from barnabas_broker.lifecycle.drain import (
    Drain,
    DrainEnd,
    DrainPhase,
    drain_samples,
    handover_of,
)
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metrics.sample import Sample

logger = logging.getLogger(__name__)

# How often what is left is looked at; each look reads all partitions of the image.
_LOOK_INTERVAL_MS: Final = 50
# A drain that is not over by then asks whether anybody is there to decide on it.
_SLOW_MS: Final = 1000


class Drainer:
    """Whoever asks first starts the drain; everybody may wait for it."""

    def __init__(
        self,
        *,
        node_id: int,
        clock: Clock,
        lifecycle: BrokerLifecycleManager,
        image: Callable[[], MetadataImage],
        budget_ms: int,
        on_start: Callable[[], None],
        is_undecided: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_start` is called once, before anything else happens: readiness goes first.

        `is_undecided` finds out whether too few members of the metadata log can be reached.
        """
        self._node_id = node_id
        self._clock = clock
        self._lifecycle = lifecycle
        self._image = image
        self._budget_ms = budget_ms
        self._on_start = on_start
        self._is_undecided = is_undecided
        self.state = Drain()
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def leaders_count(self) -> int:
        """What the broker still leads, by the newest metadata it has applied."""
        return handover_of(self._image(), self._node_id).leaders_count

    def samples(self) -> Iterator[Sample]:
        """For the collector."""
        return drain_samples(self.state, self._budget_ms, self._clock.monotonic_ms())

    def start(self, reason: str, budget_ms: int | None = None) -> None:
        """Begin, unless it has begun; a smaller budget than before is taken over."""
        was = self.state
        self.state = was.started(
            self._clock.monotonic_ms(),
            self._budget_ms if budget_ms is None else min(budget_ms, self._budget_ms),
        )
        if was.phase is DrainPhase.RUNNING:
            logger.info("%s: giving away %d leaderships", reason, self.leaders_count)
            self._on_start()
            self._look()
            if self.state.phase is DrainPhase.DRAINING:
                self._lifecycle.want(is_shut_down=True)
                self._task = asyncio.create_task(self._run(), name="drain")

    async def asked(self, timeout_ms: int | None) -> dict[str, Any]:
        """Begin, and say how far the drain is: what `/drain` answers.

        Returns when the drain has ended, or half the budget, or the time given, is over: who asks
        wants to have time left for the rest of the stop. The broker goes on serving.
        """
        self.start("a drain was asked for")
        half_ms = self._budget_ms // 2
        await self.until_drained(half_ms if timeout_ms is None else min(timeout_ms, half_ms))
        return {"phase": self.state.phase.value, "leaders": self.leaders_count}

    def undo(self) -> None:
        """Stay after all: a broker that was fenced is unfenced again."""
        if self.state.phase not in (DrainPhase.DRAINING, DrainPhase.DRAINED):
            return
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self.state = self.state.undone()
        self._ended.clear()
        self._lifecycle.stay()
        logger.info("the drain is taken back")

    def cut_short(self) -> None:
        """Wait no longer."""
        self.state = self.state.cut_short()
        self._note_end()

    async def until_drained(self, timeout_ms: int | None = None) -> bool:
        """Whether the drain has ended; returns when it has, or the time is over."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End the drain's task; the process stops."""
        self.state = self.state.stopped()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._ended.set()

    async def _run(self) -> None:
        while self.state.phase is DrainPhase.DRAINING:
            await asyncio.sleep(_LOOK_INTERVAL_MS / 1000)
            try:
                self._look()
            except Exception:
                # A stop must go on: whoever waits for the drain would wait for ever.
                logger.exception("the drain cannot be watched, and is cut short")
                self.cut_short()

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        is_slow = now_ms - self.state.started_ms >= _SLOW_MS
        handover = handover_of(
            self._image(),
            self._node_id,
            may_stop=self._lifecycle.may_stop,
            is_undecided=is_slow and self._is_undecided(),
        )
        self.state = self.state.observed(handover, now_ms)
        self._note_end()

    def _note_end(self) -> None:
        if self.state.phase is not DrainPhase.DRAINED or self._ended.is_set():
            return
        self._ended.set()
        assert self.state.end is not None
        took_ms = self._clock.monotonic_ms() - self.state.started_ms
        left = self.leaders_count
        log = logger.info if self.state.end is not DrainEnd.BUDGET_SPENT else logger.warning
        log("drained in %d ms, leading %d: %s", took_ms, left, self.state.end.value)

"""Runs callbacks after a delay, on a loop; made for many delays of which most are cancelled.

A timing wheel with one timer of the loop behind it, set to the next bucket that holds a task: an
idle timer does not wake the process. Not for measuring, and not precise below a few milliseconds.
"""

import asyncio
import logging
from collections.abc import Callable

from barnabas_broker.env.clock import Clock
from barnabas_broker.purgatory.timing_wheel import TimerTask, TimingWheel

__all__ = ["Timer", "TimerTask"]

_log = logging.getLogger(__name__)
_NS_PER_MS = 1_000_000


class Timer:
    """Delayed callbacks."""

    __slots__ = ("_armed_ms", "_clock", "_handle", "_is_closed", "_loop", "_wheel", "fired_count")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._wheel = TimingWheel(clock.monotonic_ms())
        self._handle: asyncio.Handle | None = None
        self._armed_ms = 0  # what the handle is set to, while there is one
        self._is_closed = False
        self.fired_count = 0

    @property
    def pending_count(self) -> int:
        """Tasks that are neither due nor cancelled."""
        return self._wheel.task_count

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerTask:
        """Have a callback run once, not before `delay_ms` have passed; cancel it by the task.

        Raises: RuntimeError after `close`.
        """
        if self._is_closed:
            raise RuntimeError("the timer is closed")
        now_ns = self._clock.monotonic_ns()
        # Rounded up: a clock that shows whole milliseconds would else fire up to one too early.
        task = TimerTask(-(-now_ns // _NS_PER_MS) + max(delay_ms, 0), callback)
        self._wheel.catch_up(now_ns // _NS_PER_MS)
        if not self._wheel.add(task):
            # Due in the next tick: a callback never runs inside of the call that schedules it.
            task.expiry_ms = self._wheel.current_ms + 1
            self._wheel.add(task)
        if self._handle is None or task.expiry_ms < self._armed_ms:
            self._arm()
        return task

    def close(self) -> None:
        """Forget every task; none runs any more."""
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        """Set the loop's timer to the next bucket."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        next_ms = self._wheel.next_ms()
        if next_ms is not None:
            self._armed_ms = next_ms
            # In whole milliseconds, rounded up: uvloop rounds to the nearest and counts from the
            # millisecond that has begun, so that it would wake too early, again and again.
            delay_ms = max(-(-(next_ms * _NS_PER_MS - self._clock.monotonic_ns()) // _NS_PER_MS), 0)
            self._handle = self._loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._handle = None
        for task in self._wheel.advance(self._clock.monotonic_ms()):
            self.fired_count += 1
            try:
                task.callback()
            except Exception:
                _log.exception("a timer's callback failed")
            if self._is_closed:
                return
        if self._handle is None:
            self._arm()

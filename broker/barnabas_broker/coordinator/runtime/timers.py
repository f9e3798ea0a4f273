"""The timers of one shard as plain data: a key, a deadline, an action.

Not a clock and not a wheel: the runtime looks up the next deadline, arms one timer of its own for
the whole shard, and takes the due actions when it fires. Tests advance a number instead.

Invariants: at most one timer per key; it fires once, never early; moving a deadline later (the
heartbeat of a member) costs one dictionary look-up and no heap operation.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Action = TypeVar("Action")

# Stale heap entries that are tolerated beside the live ones before the heap is built anew.
_STALE_ENTRIES_MAX = 256


class _Timer(Generic[Action]):
    __slots__ = ("action", "deadline_ms", "heap_deadline_ms")

    def __init__(self, deadline_ms: int, action: Action) -> None:
        self.deadline_ms = deadline_ms
        self.heap_deadline_ms = deadline_ms
        self.action = action


class ShardTimers(Generic[Action]):
    """Keyed deadlines, in milliseconds of the monotonic clock, and what is due at each."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer[Action]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._tie_breaker = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Fire the action at the deadline, in place of what the key had scheduled."""
        timer = self._timers.get(key)
        if timer is not None and timer.heap_deadline_ms <= deadline_ms:
            timer.deadline_ms = deadline_ms
            timer.action = action
            return
        self._timers[key] = _Timer(deadline_ms, action)
        self._push(deadline_ms, key)
        if len(self._heap) > 2 * len(self._timers) + _STALE_ENTRIES_MAX:
            self._rebuild()

    def postpone(self, key: Hashable, deadline_ms: int) -> None:
        """Move a deadline to a later time; without effect on a key that has no timer."""
        timer = self._timers.get(key)
        if timer is not None and deadline_ms > timer.deadline_ms:
            timer.deadline_ms = deadline_ms

    def postpone_all(self, by_ms: int) -> None:
        """Move every deadline: the process was held up, and heartbeats are still to be read."""
        for timer in self._timers.values():
            timer.deadline_ms += by_ms

    def cancel(self, key: Hashable) -> None:
        """Forget the key's timer, if it has one."""
        self._timers.pop(key, None)

    def clear(self) -> None:
        """Forget all timers."""
        self._timers.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """Return when the next timer is due; None without timers."""
        heap = self._heap
        while heap:
            deadline_ms, _, key = heap[0]
            timer = self._timers.get(key)
            if timer is None or timer.heap_deadline_ms != deadline_ms:
                heapq.heappop(heap)
            elif timer.deadline_ms > deadline_ms:
                heapq.heappop(heap)
                timer.heap_deadline_ms = timer.deadline_ms
                self._push(timer.deadline_ms, key)
            else:
                return deadline_ms
        return None

    def take_due(self, now_ms: int) -> Action | None:
        """Take the action of the earliest due timer out; None if none is due.

        One at a time, because an action may cancel or move others.
        """
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._timers.pop(key).action

    def _push(self, deadline_ms: int, key: Hashable) -> None:
        self._tie_breaker += 1
        heapq.heappush(self._heap, (deadline_ms, self._tie_breaker, key))

    def _rebuild(self) -> None:
        self._heap.clear()
        for key, timer in self._timers.items():
            timer.heap_deadline_ms = timer.deadline_ms
            self._push(timer.deadline_ms, key)

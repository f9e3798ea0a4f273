"""The queue between watching and reconciling: keys, once each, when they are due.

Watching puts in keys as often as it likes; a key waits at most once, and one that comes in while it
is being reconciled is reconciled again afterwards. A pass that fails comes back later and later, a
pass that wants to look again says when.

Invariants: a key is never reconciled by two workers at once; a new event never postpones a key that
waits already; nothing here knows what a key means.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count

from barnabas_operator.work.key import Key

# Timers may be early by a tick of the clock; whoever waits again for so little only turns.
_TICK_SECONDS = 0.001

Reconcile = Callable[[Key], Awaitable[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One finished reconcile; `error` is None where it went well."""

    key: Key
    seconds: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a key that fails waits: doubling, with up to a quarter more by chance."""

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    # A change may be the cure, so it need not wait out the backoff; but not a storm of them.
    after_change_seconds: float = 5.0

    def wait_seconds(self, failures: int, chance: float) -> float:
        """The wait after so many failures in a row; `chance` is from 0 to 1."""
        doubled = self.first_seconds * 2.0 ** min(failures - 1, 30)
        return min(doubled, self.most_seconds) * (1 + chance / 4)


class WorkQueue:
    """Keys that wait, and the workers that take them; for one event loop."""

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        settle_seconds: float = 0.2,
        pass_timeout_seconds: float = 240.0,
        backoff: Backoff | None = None,
        on_pass: Callable[[Pass], None] = lambda done: None,
        chance: random.Random | None = None,
    ) -> None:
        """Take what reconciles a key; it returns the seconds until it wants to be called again."""
        self._reconcile = reconcile
        self._workers = workers
        self._settle_seconds = settle_seconds
        self._pass_timeout_seconds = pass_timeout_seconds
        self._backoff = backoff or Backoff()
        self._on_pass = on_pass
        self._due: dict[Key, float] = {}
        # Entries whose time is no longer the key's are passed over when they come up.
        self._heap: list[tuple[float, int, Key]] = []
        self._order = count()
        self._running: dict[Key, float] = {}
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._chance = chance or random.Random()

    @property
    def in_progress(self) -> int:
        """How many keys are being reconciled."""
        return len(self._running)

    @property
    def depth(self) -> int:
        """How many keys wait for a worker now."""
        now = self._now()
        return sum(due <= now for due in self._due.values())

    @property
    def oldest_seconds(self) -> float:
        """For how long the oldest key has waited for a worker, or a worker has been at one."""
        now = self._now()
        since = min((*self._due.values(), *self._running.values()), default=now)
        return max(0.0, now - since)

    def failures_of(self, key: Key) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    def add(self, key: Key, delay_seconds: float | None = None) -> None:
        """Reconcile the key soon, once for all changes that come within the settling time."""
        if key in self._running:
            self._again.add(key)
            return
        delay = self._settle_seconds if delay_seconds is None else delay_seconds
        if self._failures.get(key):
            delay = max(delay, self._backoff.after_change_seconds)
        self._schedule(key, delay)

    async def run(self) -> None:
        """Work until cancelled; passes under way are cancelled, too."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(self._work(), name=f"worker {number}")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _schedule(self, key: Key, delay_seconds: float) -> None:
        due = self._now() + delay_seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _sleep(self, seconds: float | None) -> None:
        """Return after the time, or as soon as a key was added."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            self._waiters.discard(waiter)

    async def _work(self) -> None:
        while True:
            key = await self._next()
            await self._pass(key)

    async def _next(self) -> Key:
        """The next key that is due; it counts as running from then on."""
        while True:
            wait: float | None = None
            while self._heap:
                due, _, key = self._heap[0]
                if self._due.get(key) != due:
                    heapq.heappop(self._heap)
                    continue
                now = self._now()
                if due > now + _TICK_SECONDS:
                    wait = due - now
                    break
                heapq.heappop(self._heap)
                del self._due[key]
                self._running[key] = now
                return key
            await self._sleep(wait)

    async def _pass(self, key: Key) -> None:
        started = self._now()
        error: Exception | None = None
        again: float | None = None
        try:
            async with asyncio.timeout(self._pass_timeout_seconds):
                again = await self._reconcile(key)
        except Exception as caught:
            error = caught
        finally:
            del self._running[key]
        self._on_pass(Pass(key=key, seconds=self._now() - started, error=error))
        if error is None:
            self._failures.pop(key, None)
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
            again = self._backoff.wait_seconds(self._failures[key], self._chance.random())
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if again is not None:
            self._schedule(key, again)

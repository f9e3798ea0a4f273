"""The queue between watching and reconciling: keys, once each, when they are due.

Watching puts in keys as often as it likes; a key waits at most once, and one that comes in while it
is being reconciled is reconciled again afterwards. A pass that fails comes back later and later, a
pass that wants to look again says when.

Most passes take a moment. One that takes longer waits for somebody, mostly for brokers that do not
answer, and anybody may declare such: so it gives its worker free after a while, and the next time
its key takes none. Of one namespace as many such passes go on at once as there are workers.

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
from barnabas_protocol.backoff import RETRY_JITTER, ExponentialBackoff

# Timers may be early by a tick of the clock; whoever waits again for so little only turns.
_TICK_SECONDS = 0.001
# A pass over 200 Topics, or over a Broker of three, is done in less on a busy machine.
_LONG_SECONDS = 3.0
# Each has a connection or two.
_LONG_PASSES_MAX = 200

Reconcile = Callable[[Key], Awaitable[float | None]]


BACKOFF = ExponentialBackoff(1_000, 60_000, RETRY_JITTER)
"""How long a key that fails waits."""
AFTER_CHANGE_SECONDS = 3.0
"""A change may be the cure, so it need not wait out the backoff; but not a storm of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    """One finished reconcile; `error` is None where it went well."""

    key: Key
    seconds: float
    error: Exception | None = None


class WorkQueue:
    """Keys that wait, and the workers that take them; for one event loop."""

    def __init__(
        self,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        settle_seconds: float = 0.2,
        pass_timeout_seconds: float = 240.0,
        on_result: Callable[[ReconcileResult], None] = lambda done: None,
        chance: random.Random | None = None,
    ) -> None:
        """Take what reconciles a key; it returns the seconds until it wants to be called again.

        `workers` is how many passes go on at once, without those that have become long.
        """
        self._reconcile = reconcile
        self._workers = workers
        self._settle_seconds = settle_seconds
        self._pass_timeout_seconds = pass_timeout_seconds
        self._on_result = on_result
        self._due: dict[Key, float] = {}
        # Entries whose time is no longer the key's are passed over when they come up.
        self._heap: list[tuple[float, int, Key]] = []
        self._order = count()
        self._ready: dict[Key, float] = {}  # that are due, the longest first
        self._running: dict[Key, float] = {}
        self._started_at = 0.0  # the last pass that has a worker
        self._long: set[Key] = set()  # of those that run, without a worker
        # Whether the last pass of a key became long; not known of keys that are new.
        self._was_long: dict[Key, bool] = {}
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

    @property
    def stuck_seconds(self) -> float:
        """For how long no worker has taken what waits for one, or a pass has not ended."""
        now = self._now()
        waiting = [due for key, due in self._due.items() if due <= now and not self._is_long(key)]
        since = [max(min(waiting), self._started_at)] if waiting else []
        return max(0.0, now - min((*since, *self._running.values()), default=now))

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
            delay = max(delay, AFTER_CHANGE_SECONDS)
        self._schedule(key, delay)

    async def run(self) -> None:
        """Work until cancelled; passes under way are cancelled, too."""
        async with asyncio.TaskGroup() as group:
            while True:
                key = await self._next()
                group.create_task(self._pass(key), name=f"pass over {key}")

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

    async def _next(self) -> Key:
        """The next key that is due and may be taken; it counts as running from then on."""
        ready: dict[Key, float] = self._ready
        while True:
            now, wait = self._now(), None
            while self._heap:
                due, _, key = self._heap[0]
                if self._due.get(key) == due:
                    if due > now + _TICK_SECONDS:
                        wait = due - now
                        break
                    ready[key] = due
                heapq.heappop(self._heap)
            for key in ready:
                if self._may_start(key):
                    del ready[key], self._due[key]
                    self._start(key, now)
                    return key
            await self._sleep(wait)

    def _may_start(self, key: Key) -> bool:
        if self._is_long(key):
            return len(self._long) < _LONG_PASSES_MAX and not self._is_crowded(key.namespace)
        return len(self._running) - len(self._long) < self._workers

    def _start(self, key: Key, now: float) -> None:
        if self._is_long(key):
            self._long.add(key)
        else:
            self._started_at = now
        self._running[key] = now

    def _is_long(self, key: Key) -> bool:
        """Whether a pass is to begin without a worker, as its last one ended without."""
        was_long = self._was_long.get(key)
        # Of a namespace that has many of them a new one is taken for another.
        return self._is_crowded(key.namespace) if was_long is None else was_long

    def _is_crowded(self, namespace: str) -> bool:
        return sum(key.namespace == namespace for key in self._long) >= self._workers

    def _become_long(self, key: Key) -> None:
        self._was_long[key] = True
        if len(self._long) < _LONG_PASSES_MAX:
            self._long.add(key)
            self._wake()

    async def _pass(self, key: Key) -> None:
        started = self._now()
        loop = asyncio.get_running_loop()
        becoming_long = loop.call_later(_LONG_SECONDS, self._become_long, key)
        error: Exception | None = None
        again: float | None = None
        try:
            async with asyncio.timeout(self._pass_timeout_seconds):
                again = await self._reconcile(key)
        except Exception as caught:
            error = caught
        finally:
            becoming_long.cancel()
            del self._running[key]
            self._long.discard(key)
        if self._now() - started < _LONG_SECONDS:
            self._was_long[key] = False
        self._on_result(ReconcileResult(key=key, seconds=self._now() - started, error=error))
        if error is None:
            self._failures.pop(key, None)
        else:
            self._failures[key] = self._failures.get(key, 0) + 1
            wait_ms = BACKOFF.wait_ms(self._failures[key] - 1, self._chance.random())
            again = wait_ms / 1000
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if again is not None:
            self._schedule(key, again)
        elif key not in self._due:
            self._was_long.pop(key, None)
        self._wake()

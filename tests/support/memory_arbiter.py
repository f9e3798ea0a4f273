"""The arbiter in a variable, for simulations: the fourth backend of the design.

Several `MemoryArbiter`s over one `MemoryStore` are the clients of one store; wrap each into a
`FaultyArbiter` for faults on the way. It passes the same conformance tests as the real ones.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.polling import changes

COPIES_MAX = 100


class MemoryStore:
    """What is stored, shared by all clients."""

    def __init__(self) -> None:
        self.stored = Stored(None, 0)
        self.is_away = False
        self.is_damaged = False
        self.put_count = 0  # records that no swap has stored
        self._last_token = 0
        # The last records that were stored, as backups of the store have them.
        self.copies: deque[ArbiterRecord] = deque(maxlen=COPIES_MAX)

    def put(self, record: ArbiterRecord | None) -> None:
        """Store a record with a token that was never used; None clears it."""
        self._last_token += 1
        if record is not None:
            self.copies.append(record)
        self.stored = Stored(record, 0 if record is None else self._last_token)
        self.is_damaged = False

    def replace(self, record: ArbiterRecord | None) -> None:
        """What an administrator does to the store."""
        self.put_count += 1
        self.put(record)

    def slow_down(self, run_ms_max: int) -> None:
        """A variable is never slow."""

    def damage(self) -> None:
        """Something that is no record, with a token that nobody knows."""
        self._last_token += 1
        self.stored = Stored(None, self._last_token)
        self.is_damaged = True


class MemoryArbiter:
    """One client; `latency_ms` is asked before and after each access to the store."""

    def __init__(
        self,
        store: MemoryStore,
        latency_ms: Callable[[], float] = lambda: 0,
        poll_interval_ms: float = 1,
    ) -> None:
        self._store = store
        self._latency_ms = latency_ms
        self._poll_interval_ms = poll_interval_ms

    async def read(self) -> Stored:
        await asyncio.sleep(self._latency_ms() / 1000)
        if self._store.is_away:
            raise ArbiterError("the store is away")
        if self._store.is_damaged:
            raise ArbiterError("not an arbiter record")
        stored = self._store.stored
        await asyncio.sleep(self._latency_ms() / 1000)
        return stored

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        await asyncio.sleep(self._latency_ms() / 1000)
        if self._store.is_away:
            return SwapOutcome.UNKNOWN
        fits = self._store.stored.token == expected_token
        if fits:
            self._store.put(record)
        await asyncio.sleep(self._latency_ms() / 1000)
        return SwapOutcome.STORED if fits else SwapOutcome.CONFLICT

    def watch(self) -> AsyncIterator[Stored]:
        return changes(self.read, self._poll_interval_ms)

    async def close(self) -> None:
        """A variable needs no closing."""

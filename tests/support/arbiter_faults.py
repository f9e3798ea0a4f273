"""What may befall a swap on its way to the arbiter's store and back, and a wrapper that does it."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import Enum

from barnabas_broker.arbiter.arbiter import (
    Arbiter,
    ArbiterError,
    ArbiterRecord,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.polling import changes


class Fault(Enum):
    """The fate of one swap."""

    LOST_REQUEST = "the connection ends before the store has seen it"
    LOST_REPLY = "it takes effect, the connection ends without an answer"
    SILENT_REQUEST = "the store never sees it, nobody answers"
    SILENT_REPLY = "it takes effect, nobody answers"
    ERROR_BEFORE = "status 500, and it has not taken effect"
    ERROR_AFTER = "status 500, and it has taken effect"
    THROTTLED = "status 429"
    FALSE_CONFLICT = "a conflict is told, and nothing has changed"
    OWN_CONFLICT = "it takes effect, and is told to be in conflict with itself"
    LATE = "nobody answers, and it reaches the store when everything else has gone on"


TAKES_EFFECT = {Fault.LOST_REPLY, Fault.SILENT_REPLY, Fault.ERROR_AFTER, Fault.OWN_CONFLICT}
TELLS_CONFLICT = {Fault.FALSE_CONFLICT, Fault.OWN_CONFLICT}


class FaultyArbiter:
    """A client of a store behind a bad line: the faults in the queue befall the next swaps."""

    def __init__(self, inner: Arbiter, faults: deque[Fault], poll_interval_ms: int = 1) -> None:
        self._inner = inner
        self._faults = faults
        self._poll_interval_ms = poll_interval_ms
        self._late: list[tuple[int, ArbiterRecord]] = []
        self.is_cut_off = False
        self.on_late: Callable[[FaultyArbiter], None] = lambda client: None

    async def read(self) -> Stored:
        if self.is_cut_off:
            raise ArbiterError("cut off")
        return await self._inner.read()

    async def compare_and_swap(self, expected_token: int, record: ArbiterRecord) -> SwapOutcome:
        if self.is_cut_off:
            return SwapOutcome.UNKNOWN
        if not self._faults:
            return await self._inner.compare_and_swap(expected_token, record)
        fault = self._faults.popleft()
        if fault in TAKES_EFFECT:
            await self._inner.compare_and_swap(expected_token, record)
        if fault is Fault.LATE:
            self._late.append((expected_token, record))
            self.on_late(self)
        return SwapOutcome.CONFLICT if fault in TELLS_CONFLICT else SwapOutcome.UNKNOWN

    def watch(self) -> AsyncIterator[Stored]:
        return changes(self.read, self._poll_interval_ms)

    async def close(self) -> None:
        await self._inner.close()

    async def let_late_arrive(self) -> None:
        """Let the swaps that were held up reach the store, in order."""
        while self._late:
            await self._inner.compare_and_swap(*self._late.pop(0))

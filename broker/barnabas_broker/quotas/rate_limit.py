"""How much has passed in the last seconds, against a rate that may change: the one window here.

Whatever is limited is counted alike: bytes, nanoseconds of processor time, connections. Pure but
for the clock. Source: KIP-13, QUO-3, QUO-8. Invariants: at most `SAMPLE_COUNT` samples; no rate,
however small or large, makes the arithmetic fail.
"""

from __future__ import annotations

import math
from collections import deque

from barnabas_broker.env.clock import Clock

UNLIMITED_RATE = 2**63 - 1
SAMPLE_MS = 1_000
SAMPLE_COUNT = 11
SHORTEST_WINDOW_MS = (SAMPLE_COUNT - 1) * SAMPLE_MS
WAIT_MS_MIN = 10


class RateLimit:
    """What passed in the last samples, against a rate a second that may change (QUO-8)."""

    __slots__ = ("_clock", "_samples", "_total", "rate")

    def __init__(self, clock: Clock, rate: float = UNLIMITED_RATE) -> None:
        self._clock = clock
        self.rate = rate
        self._samples: deque[list[int]] = deque()  # beginning (monotonic ms) and amount of each
        self._total = 0

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.rate < UNLIMITED_RATE

    def record(self, amount: int) -> None:
        """Count what has passed."""
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_MS:
            self._samples.append([now_ms - now_ms % SAMPLE_MS, 0])
        self._samples[-1][1] += amount
        self._total += amount

    @property
    def observed_rate(self) -> float:
        """What passed a second over the window, taken as at least all but one of its samples."""
        window_ms = self._window_ms()
        return self._total * 1000 / window_ms

    def could_ever_pass(self, amount: int) -> bool:
        """Whether so much at once keeps the rate when nothing else has passed."""
        return amount * 1000 <= self.rate * SHORTEST_WINDOW_MS

    def throttle_ms(self, more: int = 0) -> int:
        """How long to wait until the rate is kept, if more passes now; 0: it is kept (QUO-3).

        Without an end for a rate that allows nothing.
        """
        window_ms = self._window_ms()
        total = self._total + more
        if total * 1000 <= self.rate * window_ms:
            return 0
        if total * 1000 >= self.rate * UNLIMITED_RATE:
            return UNLIMITED_RATE
        return math.ceil(total * 1000 / self.rate - window_ms)

    def _window_ms(self) -> int:
        """How long the window is that counts now; what is older is forgotten."""
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        if not self._samples:
            return SHORTEST_WINDOW_MS
        return max(now_ms - self._samples[0][0], SHORTEST_WINDOW_MS)

    @property
    def is_exceeded(self) -> bool:
        """Whether more has passed than may."""
        return self.rate < UNLIMITED_RATE and self.observed_rate > self.rate

    @property
    def wait_ms(self) -> int:
        """After how long it is worth looking again, when it is exceeded: at most one sample."""
        observed = self.observed_rate
        if observed <= self.rate:
            return WAIT_MS_MIN
        window_ms = SAMPLE_COUNT * SAMPLE_MS
        wait_ms = (observed - self.rate) * window_ms / max(self.rate, 1)
        return int(min(max(wait_ms, WAIT_MS_MIN), SAMPLE_MS))

    def _expire(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] >= SAMPLE_COUNT * SAMPLE_MS:
            self._total -= self._samples.popleft()[1]

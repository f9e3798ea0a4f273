"""A bucket of tokens: a burst may take more than a second's worth, and a debt is waited for.

Pure but for the clock. Source: KIP-599, QUO-7. Invariant: never more tokens than `BURST_SECONDS` of
the rate; below 0 without an end, as who takes is only asked whether there is no debt.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.env.clock import Clock

BURST_SECONDS: Final = 11
"""`controller.quota.window.num` of Kafka, times its window of a second."""
RATE_MAX: Final = 2.0**31 - 1
"""Kafka's own value for a quota that is not set."""
THROTTLE_MS_MAX: Final = 2**31 - 1


class TokenBucket:
    """The tokens of one bucket, full at first, by a rate a second that may change (QUO-8)."""

    __slots__ = ("_clock", "_refilled_ms", "_tokens", "rate")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rate = 0.0
        self._tokens: float | None = None  # full, whatever the rate will be
        self._refilled_ms = clock.monotonic_ms()

    @property
    def tokens(self) -> float:
        """How many there are now; below 0 is a debt."""
        now_ms = self._clock.monotonic_ms()
        rate = min(max(self.rate, 0.0), RATE_MAX)
        full = rate * BURST_SECONDS
        if self._tokens is None:
            self._tokens = full
        else:
            earned = rate * (now_ms - self._refilled_ms) / 1000
            self._tokens = min(self._tokens + earned, full)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, count: int) -> None:
        """Take tokens, into debt where there are too few."""
        self._tokens = self.tokens - count

    @property
    def throttle_ms(self) -> int:
        """How long until there is no debt; without an end for a rate that allows nothing."""
        debt = -self.tokens
        if debt <= 0:
            return 0
        if self.rate <= 0:
            return THROTTLE_MS_MAX
        return int(min(debt * 1000 / self.rate + 0.5, THROTTLE_MS_MAX))

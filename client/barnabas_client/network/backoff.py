"""How long to wait before the next attempt: doubling, bounded, and never in step with others.

Pure: the random number is an argument.
Source: KIP-580 (exponential backoff with 20 % jitter for all of the clients' retries).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JITTER: Final = 0.2
_DOUBLINGS_MAX: Final = 40
"""More would only overflow: every maximum is reached before."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """From `initial_ms`, doubling with each attempt, to `maximum_ms`; 20 % more or less."""

    initial_ms: int
    maximum_ms: int

    def wait_ms(self, attempt: int, random: float) -> int:
        """The wait after failed attempt number `attempt` (from 0); `random` is in [0, 1)."""
        term = self.initial_ms << min(max(attempt, 0), _DOUBLINGS_MAX)
        jitter = 1 - JITTER + 2 * JITTER * random
        return int(min(term, self.maximum_ms) * jitter)

"""How long to wait before the next attempt: doubling, bounded, and not in step with others.

Pure: chance is an argument. Every part of Barnabas that tries again waits by this.
Source: KIP-580 (exponential backoff with 20 % jitter for all of the clients' retries).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RETRY_JITTER: Final = 0.2
"""Kafka's, for those of whom there are many."""
_DOUBLINGS_MAX: Final = 40
"""More would only overflow: every maximum is reached before."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """From `initial_ms`, doubling with each failure, to `maximum_ms`; `jitter` is a part of it."""

    initial_ms: int
    maximum_ms: int
    jitter: float = 0.0

    def wait_ms(self, failures: int, chance: float = 0.5) -> int:
        """The wait after so many earlier failures in a row (0 for the first wait).

        `chance` is in [0, 1) and spreads the wait by `jitter` of it, less or more.
        """
        term = self.initial_ms << min(max(failures, 0), _DOUBLINGS_MAX)
        return int(min(term, self.maximum_ms) * (1 + self.jitter * (2 * chance - 1)))

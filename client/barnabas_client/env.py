"""The clock and the randomness of the client, as seams: everything below takes them as arguments.

Not here: the network, whose seam is the transport (`network/transport.py`).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Two clocks in whole milliseconds."""

    def monotonic_ms(self) -> int:
        """Never goes back; only differences mean something."""
        ...

    def wall_ms(self) -> int:
        """Since 1970 in UTC; may jump."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        """Return the clock that deadlines are made of."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return the time that records carry."""
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Environment:
    """What a client takes from outside besides the network."""

    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.Random)

"""Clocks: the only way to the time of the operating system.

Monotonic readings measure durations and deadlines; wall readings stamp records and files. The two
are never mixed: the wall clock may jump in both directions, the monotonic clock never does.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of the present time."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an unspecified start; never goes back."""
        ...

    def monotonic_ns(self) -> int:
        """The same clock in nanoseconds."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""
        ...


class SystemClock:
    """The operating system's clocks."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        """Milliseconds of the monotonic clock, rounded down."""
        return time.monotonic_ns() // 1_000_000

    # Read several times for each request: no call but the operating system's.
    monotonic_ns = staticmethod(time.monotonic_ns)

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, rounded down."""
        return time.time_ns() // 1_000_000

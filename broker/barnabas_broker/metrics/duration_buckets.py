"""How long something took, counted in buckets of powers of two: one shift and one addition each.

Who is on the way of each request may add to the buckets without a call; see `NetworkMetrics`.
"""

from typing import Final

from barnabas_broker.metrics.sample import Histogram

BUCKETS_COUNT: Final = 24
"""Bucket n holds durations below 2**(n + 14) ns: from 16 µs to more than two minutes."""
SHIFT: Final = 14
_BOUNDS: Final = tuple((1 << (n + SHIFT)) / 1e9 for n in range(BUCKETS_COUNT - 1))


class DurationBuckets:
    """How many there were of each length, and all together."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS_COUNT
        self.total_ns = 0

    def add(self, elapsed_ns: int) -> None:
        """Count one."""
        self.total_ns += elapsed_ns
        index = (elapsed_ns >> SHIFT).bit_length()
        self.buckets[index if index < BUCKETS_COUNT else -1] += 1

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.buckets)

    def histogram(self) -> Histogram:
        """What is told of them, in seconds."""
        return Histogram(_BOUNDS, list(self.buckets), self.total_ns / 1e9)

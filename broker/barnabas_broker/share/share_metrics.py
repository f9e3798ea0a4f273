"""What share partitions count, for the collector. Source: KIP-932; MET-1.

Not here: the numbers of single share partitions, which `share_partitions.py` reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.share.record_states import AcknowledgeType


class Durations:
    """How often something was done, and how long that took in sum."""

    __slots__ = ("count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0

    def observe(self, duration_ns: int) -> None:
        """Count one."""
        self.count += 1
        self.total_ns += duration_ns

    def samples(self, name: str, text: str) -> Iterator[Sample]:
        """How many, and the seconds they took."""
        yield Sample(f"{name}_total", "counter", text, {}, self.count)
        yield Sample(
            f"{name}_seconds_total", "counter", f"{text} In seconds.", {}, self.total_ns / 1e9
        )


class ShareMetrics:
    """The counters of all share partitions of a broker."""

    def __init__(self) -> None:
        self.loads = Durations()
        self.fetch_locks = Durations()
        self.failed_loads = 0
        self.failed_writes = 0
        self.lock_timeouts = 0
        self.acknowledgements: Counter[int] = Counter()  # records, by acknowledge type
        self.acquired_count = 0

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        yield from self.loads.samples(
            "barnabas_share_partition_loads", "Share partitions that were loaded."
        )
        yield from self.fetch_locks.samples(
            "barnabas_share_fetch_locks", "Reads of share partitions, each alone."
        )
        for name, text, value in (
            ("failed_loads", "Share partitions that could not be loaded.", self.failed_loads),
            ("failed_writes", "Writes of share partition state that failed.", self.failed_writes),
            ("lock_timeouts", "Records whose lock ran out.", self.lock_timeouts),
            ("acquired_records", "Records that members have acquired.", self.acquired_count),
        ):
            yield Sample(f"barnabas_share_{name}_total", "counter", text, {}, value)
        for kind in AcknowledgeType:
            yield Sample(
                "barnabas_share_acknowledgements_total",
                "counter",
                "Records that members have acknowledged, by type.",
                {"type": kind.name.lower()},
                self.acknowledgements[kind],
            )

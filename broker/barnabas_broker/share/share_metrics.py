"""What share partitions count, for the collector. Source: KIP-932, KIP-1191; MET-1.

Not here: the numbers of single share partitions, which `share_partitions.py` reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from barnabas_broker.metrics.sample import Sample
from barnabas_broker.share.record_states import AcknowledgeType

DEAD_LETTER_GROUPS_MAX: Final = 1_000
"""So many groups have counters of dead letters of their own."""
OTHER_GROUPS: Final = ""


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


class DeadLetterCounts:
    """What became of the dead letters of one group."""

    __slots__ = (
        "failed_request_count",
        "loss_count",
        "lost_count",
        "record_count",
        "request_count",
    )

    def __init__(self) -> None:
        self.record_count = 0
        self.request_count = 0
        self.failed_request_count = 0
        self.lost_count = 0
        self.loss_count = 0  # of writes that have lost some

    def samples(self, group_id: str) -> Iterator[Sample]:
        """All of them, under the name of the group."""
        for name, text, value in (
            ("letters", "Records written to topics for dead letters.", self.record_count),
            ("letter_requests", "Requests that write dead letters.", self.request_count),
            ("letter_failed_requests", "Those that failed.", self.failed_request_count),
            ("letters_lost", "Records archived without a dead letter.", self.lost_count),
        ):
            yield Sample(
                f"barnabas_share_dead_{name}_total", "counter", text, {"group": group_id}, value
            )


class ShareMetrics:
    """The counters of all share partitions of a broker."""

    def __init__(self) -> None:
        self._dead_letters: dict[str, DeadLetterCounts] = {}
        self.loads = Durations()
        self.fetch_locks = Durations()
        self.failed_loads = 0
        self.failed_writes = 0
        self.lock_timeouts = 0
        self.acknowledgements: Counter[int] = Counter()  # records, by acknowledge type
        self.acquired_count = 0
        self.redelivered_count = 0

    def dead_letters_of(self, group_id: str) -> DeadLetterCounts:
        """The counters of a group; those of very many have theirs together."""
        if group_id not in self._dead_letters and len(self._dead_letters) >= DEAD_LETTER_GROUPS_MAX:
            group_id = OTHER_GROUPS
        return self._dead_letters.setdefault(group_id, DeadLetterCounts())

    def samples(self) -> Iterator[Sample]:
        """All of them."""
        for group_id, counts in self._dead_letters.items():
            yield from counts.samples(group_id)
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
            (
                "redelivered_records",
                "Of those, the ones that were delivered before.",
                self.redelivered_count,
            ),
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

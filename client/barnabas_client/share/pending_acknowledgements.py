"""The acknowledgements that wait for the next request to one leader.

Pure. Not here: which request carries them (`share_fetcher.py`).

Source: SHR-15 to SHR-17, SHR-41. A broker takes the acknowledgements of a partition in one request
all together or not at all, so one that cannot succeed must not be sent with the others.
Invariants: what was added is taken once; the ranges that are taken rise and do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from barnabas_client.share.acquisition import Acquisition, TopicIdPartition
from barnabas_client.share.records import AcknowledgedRange, AcknowledgeType
from barnabas_protocol.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAcknowledgements:
    """The acknowledgements of one partition that go out, or fail, together."""

    topic_partition: TopicPartition
    topic_id_partition: TopicIdPartition
    by_acquisition: tuple[tuple[Acquisition, tuple[AcknowledgedRange, ...]], ...]

    @property
    def ranges(self) -> tuple[AcknowledgedRange, ...]:
        """All ranges, rising; neighbours of one type are one."""
        return merged(one for _, ranges in self.by_acquisition for one in ranges)

    @property
    def is_renewal(self) -> bool:
        """Whether some locks are to begin again."""
        return any(
            one.acknowledge_type == AcknowledgeType.RENEW
            for _, ranges in self.by_acquisition
            for one in ranges
        )


class PendingAcknowledgements:
    """What is to be sent to one leader."""

    def __init__(self) -> None:
        self._by_acquisition: dict[Acquisition, list[AcknowledgedRange]] = {}

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self._by_acquisition)

    def topic_partitions(self) -> set[TopicPartition]:
        """The partitions of what waits."""
        return {acquisition.topic_partition for acquisition in self._by_acquisition}

    def add(self, acquisition: Acquisition, ranges: Iterable[AcknowledgedRange]) -> None:
        """Add ranges that the acquisition holds."""
        added = list(ranges)
        if added:
            self._by_acquisition.setdefault(acquisition, []).extend(added)

    def restore(self, taken: PartitionAcknowledgements) -> None:
        """Have what was taken sent again."""
        for acquisition, ranges in taken.by_acquisition:
            self.add(acquisition, ranges)

    def take(
        self, condition: Callable[[Acquisition, Sequence[AcknowledgedRange]], bool]
    ) -> list[PartitionAcknowledgements]:
        """Take those that the condition holds for, by partition.

        Of acquisitions that overlap, because the lock of the older one ran out before its offsets
        were acquired again, the older one stays for later.
        """
        taken: dict[TopicIdPartition, dict[Acquisition, tuple[AcknowledgedRange, ...]]] = {}
        for acquisition, ranges in reversed(self._by_acquisition.items()):
            if not condition(acquisition, ranges):
                continue
            together = taken.setdefault(acquisition.topic_id_partition, {})
            wanted = merged(ranges)
            if not any(_overlap(wanted, others) for others in together.values()):
                together[acquisition] = wanted
        found = []
        for key, together in taken.items():
            for acquisition in together:
                del self._by_acquisition[acquisition]
            found.append(
                PartitionAcknowledgements(
                    topic_partition=next(iter(together)).topic_partition,
                    topic_id_partition=key,
                    by_acquisition=tuple(together.items()),
                )
            )
        return found


def merged(ranges: Iterable[AcknowledgedRange]) -> tuple[AcknowledgedRange, ...]:
    """The ranges in rising order, neighbours of one type as one."""
    done: list[AcknowledgedRange] = []
    first = last = kind = -1
    for first_offset, last_offset, acknowledge_type in sorted(ranges):
        if acknowledge_type == kind and first_offset == last + 1:
            last = last_offset
            continue
        if kind >= 0:
            done.append(AcknowledgedRange(first, last, kind))
        first, last, kind = first_offset, last_offset, acknowledge_type
    if kind >= 0:
        done.append(AcknowledgedRange(first, last, kind))
    return tuple(done)


def _overlap(some: Sequence[AcknowledgedRange], others: Sequence[AcknowledgedRange]) -> bool:
    """Whether two rising sequences have an offset in common."""
    at = 0
    for one in some:
        while at < len(others) and others[at].last_offset < one.first_offset:
            at += 1
        if at < len(others) and others[at].first_offset <= one.last_offset:
            return True
    return False

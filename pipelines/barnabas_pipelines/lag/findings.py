"""What a lag report is made of: groups and how far behind they are, topics and their traffic. Pure.

Times are milliseconds since 1970, by the records' own timestamps; offsets are exclusive at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas_client.cluster.offset_ranges import OffsetRange

SKEW_IS_BAD = 2.0
SKEW_RECORDS_MIN = 100
"""Of fewer records, any distribution is chance."""
BUCKET_COUNT_WANTED = 60
"""About as many as a chart shows well."""
_ROUND_MS = (
    *(1_000, 5_000, 10_000, 30_000),
    *(60_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group is behind in one partition.

    `behind_ms` is the age of the oldest record that it has not read; None where nothing is unread
    or no timestamp is known. `lost_count` records were deleted before the group had read them.
    """

    topic: str
    partition: int
    committed: int
    start: int
    end: int
    behind_ms: int | None = None

    @property
    def lag(self) -> int:
        """Offsets that are there and not read; no fewer than the records."""
        return OffsetRange(self.start, self.end).lag(self.committed)

    @property
    def lost_count(self) -> int:
        """Offsets between what was read and what is still there."""
        return OffsetRange(self.start, self.end).lost_count(self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group with the partitions for which it has committed offsets."""

    group_id: str
    state: str
    member_count: int
    partitions: tuple[PartitionLag, ...]
    gone: tuple[str, ...] = ()
    """Topics with committed offsets that do not exist any more."""

    @property
    def lag(self) -> int:
        """Over all partitions."""
        return sum(one.lag for one in self.partitions)

    @property
    def behind_ms(self) -> int | None:
        """Of the partition that is furthest behind; None where none is."""
        return max(
            (one.behind_ms for one in self.partitions if one.behind_ms is not None), default=None
        )

    @property
    def lost_count(self) -> int:
        """Over all partitions."""
        return sum(one.lost_count for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What has come in a stretch of time that starts at `start_ms`."""

    start_ms: int
    record_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets without records in the middle of a partition, from `first` to before `end`."""

    partition: int
    first: int
    end: int

    @property
    def offset_count(self) -> int:
        """How many there are."""
        return self.end - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTraffic:
    """What was read of a partition. Sizes are of keys, values and headers, uncompressed."""

    partition: int
    record_count: int = 0
    size_bytes: int = 0
    missing_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTraffic:
    """What was read of a topic."""

    topic: str
    partitions: tuple[PartitionTraffic, ...]
    buckets: tuple[Bucket, ...]
    holes: tuple[Hole, ...] = ()

    @property
    def record_count(self) -> int:
        """Over all partitions."""
        return sum(one.record_count for one in self.partitions)

    @property
    def size_bytes(self) -> int:
        """Over all partitions."""
        return sum(one.size_bytes for one in self.partitions)

    @property
    def missing_count(self) -> int:
        """Offsets without records between the first and the last record read."""
        return sum(one.missing_count for one in self.partitions)

    @property
    def skew(self) -> float:
        """How many times as much as the average the fullest partition has; 1 is even."""
        if not self.record_count:
            return 1.0
        fullest = max(one.record_count for one in self.partitions)
        return fullest * len(self.partitions) / self.record_count

    @property
    def is_skewed(self) -> bool:
        """Whether one partition has much more than its share."""
        return self.record_count >= SKEW_RECORDS_MIN and self.skew >= SKEW_IS_BAD


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFindings:
    """All of a report. `from_ms` and `until_ms` are what charts of time show."""

    bootstrap_servers: str
    made_at_ms: int
    from_ms: int
    until_ms: int
    bucket_ms: int
    groups: tuple[GroupLag, ...]
    topics: tuple[TopicTraffic, ...]
    has_traffic: bool = True
    """Whether records were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRow:
    """A row as it comes from the records: one partition in one stretch of time."""

    topic: str
    partition: int
    start_ms: int
    record_count: int
    size_bytes: int
    first_offset: int
    last_offset: int


def traffic_of(
    topic: str, partitions: Iterable[int], rows: Iterable[BucketRow], holes: Iterable[Hole] = ()
) -> TopicTraffic:
    """Rows of one topic, put together by partition and by time."""
    by_partition: dict[int, list[BucketRow]] = {one: [] for one in partitions}
    by_time: dict[int, list[BucketRow]] = {}
    for row in rows:
        by_partition.setdefault(row.partition, []).append(row)
        by_time.setdefault(row.start_ms, []).append(row)
    return TopicTraffic(
        topic=topic,
        partitions=tuple(_partition(one, some) for one, some in sorted(by_partition.items())),
        buckets=tuple(
            Bucket(
                start_ms=start_ms,
                record_count=sum(row.record_count for row in some),
                size_bytes=sum(row.size_bytes for row in some),
            )
            for start_ms, some in sorted(by_time.items())
        ),
        holes=tuple(holes),
    )


def _partition(number: int, rows: list[BucketRow]) -> PartitionTraffic:
    if not rows:
        return PartitionTraffic(partition=number)
    count = sum(row.record_count for row in rows)
    span = max(row.last_offset for row in rows) - min(row.first_offset for row in rows) + 1
    return PartitionTraffic(
        partition=number,
        record_count=count,
        size_bytes=sum(row.size_bytes for row in rows),
        missing_count=span - count,
    )


def bucket_length_ms(span_ms: int) -> int:
    """A round length with which a span of time has about 60 buckets, and at most twice as many."""
    for length_ms in _ROUND_MS:
        if span_ms <= length_ms * BUCKET_COUNT_WANTED:
            return length_ms
    days = -(-span_ms // (_ROUND_MS[-1] * BUCKET_COUNT_WANTED))
    return days * _ROUND_MS[-1]


def filled(buckets: Iterable[Bucket], from_ms: int, until_ms: int, bucket_ms: int) -> list[Bucket]:
    """The buckets of a span, also those in which nothing came."""
    known = {bucket.start_ms: bucket for bucket in buckets}
    first = from_ms // bucket_ms * bucket_ms
    return [
        known.get(start_ms, Bucket(start_ms=start_ms, record_count=0, size_bytes=0))
        for start_ms in range(first, until_ms + 1, bucket_ms)
    ]

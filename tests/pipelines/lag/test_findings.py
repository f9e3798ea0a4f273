"""Lag, loss, skew and gaps from offsets and rows."""

import pytest

from barnabas_pipelines.lag.findings import (
    Bucket,
    BucketRow,
    GroupLag,
    PartitionLag,
    bucket_length_ms,
    filled,
    traffic_of,
)


def lag(
    committed: int, start: int, end: int, *, partition: int = 0, behind_ms: int | None = None
) -> PartitionLag:
    return PartitionLag(
        topic="t",
        partition=partition,
        committed=committed,
        start=start,
        end=end,
        behind_ms=behind_ms,
    )


def row(partition: int, start_ms: int, offsets: range, size_bytes: int = 0) -> BucketRow:
    return BucketRow(
        topic="t",
        partition=partition,
        start_ms=start_ms,
        record_count=len(offsets),
        size_bytes=size_bytes,
        first_offset=offsets[0],
        last_offset=offsets[-1],
    )


def test_lag_is_what_is_there_and_not_read() -> None:
    assert lag(30, 0, 100).lag == 70
    assert lag(100, 0, 100).lag == 0


def test_what_was_deleted_before_it_was_read_is_lost_and_no_lag() -> None:
    """Nobody can read it any more: a group that waits for it would wait for ever."""
    one = lag(30, 50, 100)
    assert (one.lag, one.lost_count) == (50, 20)


def test_an_offset_beyond_the_end_is_no_negative_lag() -> None:
    """A topic that was made again is shorter than what was committed for the old one."""
    assert lag(500, 0, 100).lag == 0


def test_a_group_is_as_late_as_its_latest_partition() -> None:
    group = GroupLag(
        group_id="g",
        state="Empty",
        member_count=0,
        partitions=(lag(1, 0, 2, behind_ms=5), lag(0, 0, 9, behind_ms=70), lag(4, 0, 4)),
    )
    assert (group.lag, group.behind_ms) == (10, 70)


def test_rows_are_put_together_by_partition_and_by_time() -> None:
    rows = [row(0, 0, range(4), 40), row(0, 60, range(4, 6), 20), row(1, 60, range(8, 10), 8)]
    traffic = traffic_of("t", [0, 1, 2], rows)
    assert [(one.partition, one.record_count) for one in traffic.partitions] == [
        (0, 6),
        (1, 2),
        (2, 0),
    ]
    assert traffic.buckets == (
        Bucket(start_ms=0, record_count=4, size_bytes=40),
        Bucket(start_ms=60, record_count=4, size_bytes=28),
    )
    assert (traffic.record_count, traffic.size_bytes, traffic.missing_count) == (8, 68, 0)


def test_skew_is_of_the_fullest_partition_against_the_average() -> None:
    rows = [row(0, 0, range(90)), row(1, 0, range(10))]
    assert traffic_of("t", [0, 1], rows).skew == pytest.approx(1.8)
    assert traffic_of("t", [0, 1], []).skew == 1


def test_offsets_between_records_are_missing() -> None:
    """Also where they lie between two stretches of time."""
    rows = [row(0, 0, range(0, 10, 2)), row(0, 60, range(20, 22))]
    assert traffic_of("t", [0], rows).missing_count == 22 - 7


@pytest.mark.parametrize(
    ("span_ms", "expected_ms"),
    [
        (1_000, 1_000),
        (60_000, 1_000),
        (3_600_000, 60_000),
        (86_400_000, 1_800_000),
        (7 * 86_400_000, 10_800_000),
        (400 * 86_400_000, 7 * 86_400_000),
    ],
)
def test_buckets_are_round_and_not_too_many(span_ms: int, expected_ms: int) -> None:
    assert bucket_length_ms(span_ms) == expected_ms
    assert span_ms / expected_ms <= 60


def test_a_time_in_which_nothing_came_has_a_column_of_its_own() -> None:
    """Left out, an outage would look like no time at all."""
    known = [Bucket(start_ms=120, record_count=3, size_bytes=1)]
    shown = filled(known, 70, 190, 60)
    assert [(one.start_ms, one.record_count) for one in shown] == [(60, 0), (120, 3), (180, 0)]

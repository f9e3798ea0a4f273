"""The latest value of each key, on tiny frames, against a dictionary that does the same."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)
Change = tuple[bytes, bytes | None, int, int, int]
"""Key, value, partition, offset, seconds after START."""


def frame_of(spark: "SparkSession", changes: list[Change]) -> "DataFrame":
    """The changes as records of a topic."""
    rows = [
        (key, value, "t", partition, offset, START + timedelta(seconds=seconds), 0)
        for key, value, partition, offset, seconds in changes
    ]
    return spark.createDataFrame(rows, schema.ddl(include_headers=False))


def table_of(latest: "DataFrame") -> dict[bytes, bytes]:
    """Keys and values; each key must be there once."""
    rows = latest.select("key", "value").collect()
    table = {bytes(row.key): bytes(row.value) for row in rows}
    assert len(table) == len(rows)
    return table


def test_the_highest_offset_of_a_partition_counts_not_the_newest_time(
    spark: "SparkSession",
) -> None:
    """Producers' clocks disagree; the log's order is what compaction goes by."""
    from barnabas_pipelines.transforms.latest import latest_per_key, without_deletions

    records = frame_of(spark, [(b"a", b"old", 0, 1, 9), (b"a", b"new", 0, 2, 3)])
    (row,) = latest_per_key(records).collect()
    assert (bytes(row.value), row.offset, row.moved) == (b"new", 2, False)
    assert table_of(without_deletions(latest_per_key(records))) == {b"a": b"new"}


def test_a_key_in_two_partitions_takes_the_newest_time_and_is_counted(
    spark: "SparkSession",
) -> None:
    """Offsets of two partitions cannot be compared: the lower one may be the newer."""
    from barnabas_pipelines.transforms.latest import latest_per_key

    records = frame_of(
        spark,
        [
            (b"a", b"before", 0, 900, 1),
            (b"a", b"after", 1, 2, 5),
            (b"b", b"x", 0, 1, 4),
            (b"b", b"y", 1, 1, 4),
        ],
    )
    rows = {bytes(row.key): row for row in latest_per_key(records).collect()}
    assert (bytes(rows[b"a"].value), rows[b"a"].moved) == (b"after", True)
    assert bytes(rows[b"b"].value) == b"y", "the same time: the higher partition"


def test_a_newer_range_wins_over_the_table_whatever_the_clocks_say(
    spark: "SparkSession",
) -> None:
    """All of it was appended after the table was read, also where the partition is another one."""
    from barnabas_pipelines.transforms.latest import latest_per_key, merge, without_deletions

    table = without_deletions(
        latest_per_key(
            frame_of(
                spark,
                [(b"a", b"1", 0, 5, 50), (b"gone", b"1", 0, 6, 50), (b"same", b"1", 0, 7, 50)],
            )
        )
    )
    changes = latest_per_key(
        frame_of(spark, [(b"a", b"2", 1, 0, 10), (b"gone", None, 0, 8, 10), (b"z", None, 0, 9, 1)])
    )
    merged = merge(table, changes)
    moved = {bytes(row.key): row.moved for row in merged.collect()}
    assert moved == {b"a": True, b"gone": False, b"same": False, b"z": False}
    assert table_of(without_deletions(merged)) == {b"a": b"2", b"same": b"1"}
    assert without_deletions(merged).columns == table.columns


def test_an_empty_value_is_a_value_and_not_a_deletion(spark: "SparkSession") -> None:
    """Only null deletes."""
    from barnabas_pipelines.transforms.latest import latest_per_key, without_deletions

    records = frame_of(spark, [(b"", b"x", 0, 0, 0), (b"", b"", 0, 1, 0)])
    assert table_of(without_deletions(latest_per_key(records))) == {b"": b""}


def test_merging_in_steps_gives_what_one_reading_gives(spark: "SparkSession") -> None:
    """Wherever a log is cut into ranges, the table is that of a dictionary that read it all."""
    from barnabas_pipelines.transforms.latest import latest_per_key, merge, without_deletions

    seed = 20260101
    dice = random.Random(seed)
    ends = [0, 0, 0]
    log: list[Change] = []
    for seconds in range(300):
        number = dice.randrange(40)
        partition = number % 3
        value = None if dice.random() < 0.3 else b"%d" % seconds
        log.append((b"key-%d" % number, value, partition, ends[partition], dice.randrange(99)))
        ends[partition] += dice.randrange(1, 4)
    wanted: dict[bytes, bytes | None] = {}
    table: DataFrame | None = None
    cuts = [0, *sorted(dice.sample(range(1, 300), 3)), 300]
    for first, last in itertools.pairwise(cuts):
        part = log[first:last]
        changes = latest_per_key(frame_of(spark, dice.sample(part, len(part))))
        table = without_deletions(changes if table is None else merge(table, changes))
        wanted.update((key, value) for key, value, *_ in part)
        alive = {key: value for key, value in wanted.items() if value is not None}
        assert table_of(table) == alive, f"seed {seed}, records {first} to {last}"

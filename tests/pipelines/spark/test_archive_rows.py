"""What becomes of records on their way into an archive and back, on tiny frames."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_client.producer.partitioner import partition_of_key
from barnabas_pipelines.replay.selection import Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, "
    "partition int, offset bigint, timestamp timestamp, timestampType int"
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def frame(spark: "SparkSession", *rows: dict[str, Any]) -> "DataFrame":
    """Records; what is left out has a value that does not matter."""
    filled = [
        (
            row.get("key"),
            b"value",
            None,
            row.get("topic", "orders"),
            row.get("partition", 0),
            row.get("offset", 0),
            EPOCH + timedelta(milliseconds=row.get("timestamp_ms", 0)),
            0,
        )
        for row in rows
    ]
    return spark.createDataFrame(filled, SCHEMA)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_days_are_those_of_utc(spark: "SparkSession", zone: str) -> None:
    """An archive that is written from two places must not have two kinds of days."""
    from barnabas_pipelines.transforms.archive_rows import archive_rows

    day_ms = 86_400_000
    moments = [-1, 0, day_ms - 1, day_ms, 1_790_000_000_000]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = archive_rows(frame(spark, *({"timestamp_ms": one} for one in moments)), {})
        days = [row.dt for row in rows.collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    assert days == ["1969-12-31", "1970-01-01", "1970-01-01", "1970-01-02", "2026-09-21"]


def test_rows_have_the_id_of_their_topic(spark: "SparkSession") -> None:
    """None where brokers have no ids."""
    from barnabas_pipelines.transforms.archive_rows import archive_rows

    rows = frame(spark, {"topic": "a"}, {"topic": "b"}, {"topic": "c"})
    found = archive_rows(rows, {"a": "1", "b": "2", "c": None}).select("topic_id").collect()
    assert [row.topic_id for row in found] == ["1", "2", None]


def test_choosing_is_by_time_partition_and_offset(spark: "SparkSession") -> None:
    """From inclusive, to exclusive."""
    from barnabas_pipelines.transforms.archive_rows import chosen

    rows = frame(
        spark,
        *({"partition": n % 2, "offset": n, "timestamp_ms": n * 1000} for n in range(10)),
        {"topic": "others", "offset": 3, "timestamp_ms": 3000},
    )

    def offsets(**choice: Any) -> list[int]:
        found = chosen(rows, Selection(topic="orders", **choice)).collect()
        return [row.offset for row in found]

    assert offsets() == list(range(10))
    assert offsets(from_ms=3000, to_ms=6000) == [3, 4, 5]
    assert offsets(partitions=frozenset({1})) == [1, 3, 5, 7, 9]
    assert offsets(offsets={0: (2, 5), 1: (7, None)}) == [2, 4, 7, 9]
    assert offsets(offsets={0: (2, 5)}, from_ms=3000) == [4]


def test_keys_choose_their_partition_as_producers_do(spark: "SparkSession") -> None:
    """Without a key, the record's own partition, wrapped around, the same each time."""
    from barnabas_pipelines.transforms.archive_rows import with_target_partition

    keys = [None, b"", b"a", b"some key", bytes(range(256))]
    rows = frame(spark, *({"key": key, "partition": 5} for key in keys))
    found = [row.target for row in with_target_partition(rows, 3, by_key=True).collect()]
    assert found == [2, *(partition_of_key(key, 3) for key in keys if key is not None)]
    own = [row.target for row in with_target_partition(rows, 3, by_key=False).collect()]
    assert own == [5] * len(keys)


def test_rows_tell_how_far_an_archive_reaches(spark: "SparkSession") -> None:
    """For when the history that says so was cleaned away; offsets need more than 32 bits."""
    from barnabas_pipelines.tables.marks import TopicReach
    from barnabas_pipelines.transforms.archive_rows import archive_rows, reach_of_rows

    places = [("a", 0, 4), ("a", 0, 7), ("a", 1, 2**40), ("b", 0, 0)]
    rows = frame(spark, *({"topic": t, "partition": p, "offset": o} for t, p, o in places))
    assert reach_of_rows(archive_rows(rows, {"a": "1", "b": None})) == (
        TopicReach(name="a", topic_id="1", starts={0: 4, 1: 2**40}, ends={0: 8, 1: 2**40 + 1}),
        TopicReach(name="b", topic_id=None, starts={0: 0}, ends={0: 1}),
    )

"""Spark's own connector against this broker, as `session` starts it.

Counts, distinct offsets and sums must be exactly what was produced.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = 4
RECORDS = 20_000
MORE = 5_000
RECORDS_A_BATCH = 5_000
FIRST_TIMESTAMP_MS = 1_700_000_000_000


def numbered(first: int, last: int) -> Iterator[RecordToSend]:
    """Records whose values are numbers, a millisecond apart, over the partitions in turn."""
    for number in range(first, last):
        yield RecordToSend(
            key=b"%d" % (number % 100),
            value=b"%d" % number,
            partition=number % PARTITIONS,
            timestamp_ms=FIRST_TIMESTAMP_MS + number,
            headers=[("number", b"%d" % number)],
        )


def counted(frame: "DataFrame") -> tuple[int, int, int]:
    """How many records, how many different ones, and the sum of their numbers."""
    from pyspark.sql import functions

    row = frame.agg(
        functions.count("*"),
        functions.countDistinct("partition", "offset"),
        functions.sum(functions.col("value").cast("string").cast("long")),
    ).collect()[0]
    return tuple(row)


def expected(count: int) -> tuple[int, int, int]:
    """The same of the numbers below the count."""
    return (count, count, count * (count - 1) // 2)


def test_the_connector_reads_what_was_produced(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    produce: Callable[..., object],
) -> None:
    """The jars that `session` puts on the class path are the right ones for this Spark."""
    topic = new_topic(partitions=2)
    produce(topic, [RecordToSend(key=b"%d" % n, value=b"value", partition=n % 2) for n in range(9)])
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .load()
    )
    rows = frame.select("key", "partition", "offset").collect()
    assert sorted((row.partition, row.offset) for row in rows) == [
        *((0, offset) for offset in range(5)),
        *((1, offset) for offset in range(4)),
    ]


def test_a_batch_counts_what_was_produced(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    produce: Callable[..., object],
) -> None:
    """All of it, what is newer than a time, and each partition for itself."""
    from pyspark.sql import functions

    topic = new_topic(partitions=PARTITIONS, configs={"retention.ms": "-1"})
    produce(topic, numbered(0, RECORDS))
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    reader = spark.read.format("kafka").options(**options)

    frame = reader.option("includeHeaders", "true").load()
    assert counted(frame) == expected(RECORDS)
    aggregates = functions.count("*"), functions.max("offset")
    rows = frame.groupBy("partition").agg(*aggregates).collect()
    each = RECORDS // PARTITIONS
    assert sorted(map(tuple, rows)) == [(n, each, each - 1) for n in range(PARTITIONS)]
    since = spark.read.format("kafka").options(**options)
    newer = since.option("startingTimestamp", str(FIRST_TIMESTAMP_MS + 500)).load()
    assert newer.count() == RECORDS - 500


def test_a_stream_until_now_goes_on_from_its_checkpoint(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: Callable[..., str],
    produce: Callable[..., object],
    tmp_path: Path,
) -> None:
    """`Trigger.AvailableNow` in several batches to files, and again after more was produced."""
    topic = new_topic(partitions=PARTITIONS, configs={"retention.ms": "-1"})
    table = str(tmp_path / "table")

    def run() -> None:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(RECORDS_A_BATCH))
            .load()
            .writeStream.format("parquet")
            .option("path", table)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()

    produce(topic, numbered(0, RECORDS))
    run()
    assert counted(spark.read.parquet(table)) == expected(RECORDS)
    produce(topic, numbered(RECORDS, RECORDS + MORE))
    run()
    assert counted(spark.read.parquet(table)) == expected(RECORDS + MORE)


def test_the_sink_writes_each_record_once(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: Callable[..., str]
) -> None:
    """Java's idempotent producer, within Spark."""
    topic = new_topic(partitions=PARTITIONS)
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    keys = spark.range(1_000).selectExpr("cast(id as string) as key", "'from spark' as value")
    keys.write.format("kafka").options(**options).option("topic", topic).save()
    back = spark.read.format("kafka").options(**options).option("subscribe", topic).load()
    assert back.count() == back.select("key").distinct().count() == 1_000

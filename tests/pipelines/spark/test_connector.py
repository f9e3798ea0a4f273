"""Spark's own connector against this broker, as `session` starts it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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

"""Rows that come to the driver to be written: all of them, in parts that it can hold."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(("partitions", "parts"), [(1, 10), (4, 10), (40, 10)])
def test_the_driver_holds_a_part_of_a_large_batch(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, partitions: int, parts: int
) -> None:
    """Partitions come whole: where a batch has few, large ones, they are cut first."""
    from barnabas_pipelines.aggregate import topic_writer
    from barnabas_pipelines.transforms.once import read_once

    monkeypatch.setattr(topic_writer, "_ROWS_PER_PART", 100)
    texts = "cast(cast(id as string) as binary)"
    frame = spark.range(1000, numPartitions=partitions).selectExpr(
        f"{texts} as key", f"{texts} as value"
    )
    with read_once(frame) as kept:
        assert topic_writer._in_parts(kept.rows, kept.count).rdd.getNumPartitions() == parts
        batches = list(topic_writer.rows_of(kept.rows, kept.count))
    keys = [key for batch in batches for key in batch.column("key").to_pylist()]
    assert sorted(map(int, keys)) == list(range(1000))

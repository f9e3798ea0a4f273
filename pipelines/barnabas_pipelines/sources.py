"""Topics as frames: batches and streams, by either way.

    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    read_topic(spark, options).groupBy("partition").count().show()
    read_topic_stream(spark, {**options, "startingOffsets": "earliest"}, via="python")

The options are those of docs/reference/pipelines.md, the same for both ways, and all are checked
before Spark sees them: the connector ignores names that it does not know. Columns are in
`schema.py`. Reading never shows in a consumer group by itself: see `progress.py`.

Not here: `format("barnabas")` itself (`datasource/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas_pipelines.option_table import Use
from barnabas_pipelines.ways import CONNECTOR, format_and_options, make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topic(
    spark: SparkSession, options: Mapping[str, str], *, via: str = CONNECTOR
) -> DataFrame:
    """The records of topics from a beginning to an end that are fixed when the frame is run.

    Raises: OptionsError.
    """
    spark_format, texts, _ = format_and_options(options, Use.BATCH_READ, via)
    make_active(spark)
    return spark.read.format(spark_format).options(**texts).load()


def read_topic_stream(
    spark: SparkSession, options: Mapping[str, str], *, via: str = CONNECTOR
) -> DataFrame:
    """The records of topics as they come, from `startingOffsets` or the query's checkpoint on.

    Raises: OptionsError.
    """
    spark_format, texts, _ = format_and_options(options, Use.STREAM_READ, via)
    make_active(spark)
    return spark.readStream.format(spark_format).options(**texts).load()

"""Topics as frames: batches and streams, by either way.

    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
    read_topic(spark, options).groupBy("partition").count().show()
    read_topic_stream(spark, {**options, "startingOffsets": "earliest"}, via="python")

The options are those of docs/reference/pipelines.md, the same for both ways, and all are checked
before Spark sees them: the connector ignores names that it does not know. Columns are in
`schema.py`. Reading never shows in a consumer group by itself: see `progress.py`.

There are two ways between Spark and topics: `via="connector"` is Spark's own (`format("kafka")`,
jars needed), `via="python"` is `format("barnabas")` of this package. Options, columns and rows are
the same; what differs is in docs/pipelines.md.

Not here: `format("barnabas")` itself (`datasource/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import Options, parse_options
from barnabas_protocol.settings.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR: Final = "connector"
PYTHON: Final = "python"
_FORMATS: Final = {CONNECTOR: "kafka", PYTHON: "barnabas"}

# Its executors request both ends of a partition once a poll, and a poll gives 500 records by
# default: with this a million records take 5 % of the requests and two thirds of the time. At the
# end of a partition a task waits for a fetch that nothing can come for, half a second by default: a
# million records of 12 partitions took 3.7 s in two tasks at once, and take 1.1 s with this.
_CONNECTOR_READ_DEFAULTS: Final = {
    "kafka.max.poll.records": "10000",
    "kafka.fetch.max.wait.ms": "50",
}


def format_and_options(
    given: Mapping[str, str], use: Use, via: str
) -> tuple[str, dict[str, str], Options]:
    """Spark's format, the options for it, and the checked ones.

    Raises: OptionsError.
    """
    if via not in _FORMATS:
        hint = did_you_mean(via, _FORMATS, similarity_min=0.0)
        raise OptionsError(f"via={via!r} is neither connector nor python{hint}")
    checked = parse_options(given, use, via=via)
    if via == PYTHON:
        return _FORMATS[via], dict(checked.given), checked
    defaults = _CONNECTOR_READ_DEFAULTS if use in (Use.BATCH_READ, Use.STREAM_READ) else {}
    return _FORMATS[via], {**defaults, **checked.connector_options()}, checked


def make_active(spark: SparkSession) -> None:
    """Let sources in Python be found from this thread.

    Spark looks them up in the active session of the thread alone, and a new thread has none.
    """
    from pyspark.sql import SparkSession

    if isinstance(spark, SparkSession):  # not that of Spark Connect, which has no JVM here
        java_class = SparkSession._get_j_spark_session_class(spark._jvm)
        java_class.setActiveSession(spark._jsparkSession)


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

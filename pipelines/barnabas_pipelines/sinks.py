"""Frames to topics: batches and streams, by either way.

    options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "totals"}
    write_topic(frame, options)
    write_topic_stream(stream, options, checkpoint="/data/totals").start()

Columns: `value` (text or binary) is required; `key`, `headers`, `topic` and `partition` are
optional. With `via="python"` a column `timestamp` is written, too; the connector drops it and
records carry the time of writing.

Both ways are at-least-once: what a failed task or a repeated micro-batch had written is written
again (in detail: `datasource/writers.py`). Key rows so that a doubled one overwrites itself.

Not here: `format("barnabas")` itself (`datasource/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.option_table import Use
from barnabas_pipelines.sources import CONNECTOR, PYTHON, format_and_options, make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRIGGER: Final = "1 second"
"""Without one Spark plans as fast as it can: an idle query sends brokers 300 requests a second."""


def write_topic(frame: DataFrame, options: Mapping[str, str], *, via: str = CONNECTOR) -> None:
    """Append the rows to their topics; all are acknowledged when this returns.

    Raises: OptionsError; AnalysisException or PythonException for columns that cannot be written.
    """
    spark_format, texts, _ = format_and_options(options, Use.BATCH_WRITE, via)
    make_active(frame.sparkSession)
    frame.write.format(spark_format).options(**texts).mode("append").save()


def write_topic_stream(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str,
    via: str = CONNECTOR,
    output_mode: str = "append",
) -> DataStreamWriter:
    """A query that appends the rows to their topics: name it, give it a trigger, `start()` it.

    By default it makes a batch a second. Give the mode here, not to what is returned:
    Spark does not let sinks in Python take updates, so that they go in batches of their own.
    Raises: OptionsError.
    """
    given = {**options, "checkpointLocation": checkpoint}
    spark_format, texts, _ = format_and_options(given, Use.STREAM_WRITE, via)
    make_active(frame.sparkSession)
    writer = frame.writeStream.outputMode(output_mode).trigger(processingTime=TRIGGER)
    if via == PYTHON and output_mode == "update":

        def write(batch: DataFrame, _: int) -> None:
            write_topic(batch, options, via=via)

        return writer.foreachBatch(write).option("checkpointLocation", checkpoint)
    return writer.format(spark_format).options(**texts)

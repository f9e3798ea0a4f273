"""A job's streaming query: from its settings to its end, with progress that others can see.

    frame = read_source(settings, spark, topics, include_headers=True)
    run_query(frame.writeStream.foreachBatch(write), settings, spark, report, name="archive")

Not here: what a batch does. Needs pyspark only when a query is run.

Invariants: the checkpoint alone decides where a query goes on; the consumer group, if any, is only
shown. `run_query` returns when the query has ended and its last batch has been told.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.jobs.common_options import trigger_seconds
from barnabas_pipelines.jobs.failures import failure_line
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report
from barnabas_pipelines.jobs.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LAST_WORD_TIMEOUT_SECONDS: Final = 30
_LOOK_SECONDS: Final = 5
"""How often a query is looked at by itself, should Spark not tell of its end."""


class QueryFailedError(PipelineError):
    """A streaming query ended with an error; the text says which, on one line."""


def source_options(
    settings: JobSettings, topics: Iterable[str], *, include_headers: bool = False
) -> dict[str, str]:
    """The options of the source, spelled as both ways spell them."""
    options = {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        "subscribe": ",".join(topics),
        "startingOffsets": settings["starting-offsets"],
        "failOnDataLoss": str(settings["fail-on-data-loss"]).lower(),
    }
    if include_headers:
        options["includeHeaders"] = "true"
    if settings["max-offsets-per-trigger"] is not None:
        options["maxOffsetsPerTrigger"] = str(settings["max-offsets-per-trigger"])
    return options | (settings["source-option"] or {})


def read_source(
    settings: JobSettings,
    spark: SparkSession,
    topics: Iterable[str],
    *,
    include_headers: bool = False,
    overrides: Mapping[str, str] | None = None,
) -> DataFrame:
    """A stream of the topics' records. Raises: OptionsError."""
    from barnabas_pipelines.sources import read_topic_stream

    options = source_options(settings, topics, include_headers=include_headers)
    return read_topic_stream(spark, options | dict(overrides or {}), via=settings["via"])


def trigger_arguments(settings: JobSettings) -> dict[str, Any]:
    """Keyword arguments for `DataStreamWriter.trigger`."""
    seconds = trigger_seconds(settings["trigger"])
    return {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}


def trigger_text(settings: JobSettings) -> str:
    """When batches are made, for a plan."""
    seconds = trigger_seconds(settings["trigger"])
    return "what is there now, then end" if seconds is None else f"every {seconds} s, for ever"


def run_query(
    writer: DataStreamWriter,
    settings: JobSettings,
    spark: SparkSession,
    report: Report,
    *,
    name: str,
    checkpoint: str | None = None,
) -> None:
    """Run the query to its end; each finished batch is reported, and shown in the group if any.

    Raises: QueryFailedError with what a worker, a batch or Spark said.
    """
    from pyspark.errors import StreamingQueryException

    follower = _Follower(report, name)
    listener = follower.listener()
    spark.streams.addListener(listener)
    committer = None
    if settings["group"]:
        from barnabas_pipelines.progress import attach

        groups = {name: settings["group"]}
        committer = attach(spark, bootstrap_servers=settings["bootstrap-servers"], groups=groups)
    query: StreamingQuery | None = None
    try:
        query = (
            writer.queryName(name)
            .option("checkpointLocation", checkpoint or settings["checkpoint"])
            .trigger(**trigger_arguments(settings))
            .start()
        )
        # Not in a call to the JVM, which a signal would leave half done: stopping needs more calls.
        while not follower.wait(_LOOK_SECONDS) and query.isActive:
            continue
        query.awaitTermination()
    except StreamingQueryException as error:
        raise QueryFailedError(failure_line(error)) from error
    finally:
        if query is not None:
            if query.isActive:
                query.stop()
            follower.wait(_LAST_WORD_TIMEOUT_SECONDS)
        if committer is not None:
            committer.close()
        spark.streams.removeListener(listener)


class _Follower:
    """Hands finished batches to the report, and knows when the query's last word was spoken."""

    def __init__(self, report: Report, name: str) -> None:
        self._report = report
        self._name = name
        self._has_ended = threading.Event()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for what comes after the query's end: Spark tells of the last batch before it."""
        return self._has_ended.wait(timeout_seconds)

    def listener(self) -> StreamingQueryListener:
        """What Spark calls, for every query of the session: only one is looked at."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        report, name, has_ended = self._report, self._name, self._has_ended

        class Listener(StreamingQueryListener):
            """Reports batches that read something."""

            run_id: Any = None

            def onQueryStarted(self, event: Any) -> None:
                """Remember which run it is."""
                if event.name == name:
                    self.run_id = event.runId

            def onQueryProgress(self, event: Any) -> None:
                """Report the batch."""
                if event.progress.name != name:
                    return
                progress = BatchProgress.of_spark(json.loads(event.progress.json))
                if progress.record_count:
                    report.batch(progress)

            def onQueryIdle(self, event: Any) -> None:
                """Nothing came."""

            def onQueryTerminated(self, event: Any) -> None:
                """Spark has no more to tell."""
                if event.runId == self.run_id:
                    has_ended.set()

        return Listener()

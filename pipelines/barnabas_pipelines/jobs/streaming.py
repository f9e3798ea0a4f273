"""A job's streaming query: from its settings to its end, with progress that others can see.

    frame = read_source(settings, spark, topics, include_headers=True)
    run_query(frame.writeStream.foreachBatch(write), settings, spark, report, name="archive")

`run_pair` runs two queries of one job, neither of which goes on without the other.

Not here: what a batch does. Needs pyspark only when a query is run.

Invariants: the checkpoint alone decides where a query goes on; the consumer group, if any, is only
shown. `run_query` returns when the query has ended and its last batch has been reported.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import PipelineError, failure_line
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.common_options import READ_COMMITTED
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report
from barnabas_pipelines.jobs.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_EVENT_WAIT_SECONDS_MAX: Final = 30
"""How long no event may come before the last one, when the query has ended."""
_LOOK_SECONDS: Final = 5
"""How often the query itself is looked at, should the event of its end be lost."""


_log = logging.getLogger(__name__)


class QueryFailedError(PipelineError):
    """A streaming query ended with an error; the text says which, on one line."""


def source_options(
    settings: JobSettings, topics: Iterable[str], *, include_headers: bool = False
) -> dict[str, str]:
    """The options of the source, spelled as both ways spell them."""
    options = {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        **READ_COMMITTED,
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
    seconds = settings["trigger"]
    return {"availableNow": True} if seconds is None else {"processingTime": f"{seconds} seconds"}


def trigger_text(settings: JobSettings) -> str:
    """When batches are made, for a plan."""
    seconds = settings["trigger"]
    return "what is there now, then end" if seconds is None else f"every {seconds} s, for ever"


def run_query(
    writer: DataStreamWriter,
    settings: JobSettings,
    spark: SparkSession,
    report: Report,
    *,
    name: str,
    checkpoint: str | None = None,
    on_progress: Callable[[Mapping[str, Any]], None] = lambda _: None,
) -> None:
    """Run the query to its end; each finished batch is reported, and shown in the group if any.

    `on_progress` gets the JSON of Spark's progress of each batch.

    Raises: QueryFailedError with the error of a worker, a batch or Spark.
    """
    from pyspark.errors import StreamingQueryException

    follower = _Follower(report, name, on_progress)
    listener = follower.listener()
    spark.streams.addListener(listener)
    committer = None
    if settings["group"]:
        from barnabas_pipelines.progress import attach

        groups = {name: settings["group"]}
        committer = attach(
            spark,
            bootstrap_servers=settings["bootstrap-servers"],
            groups=groups,
            client_settings=ClusterFacts.of(settings).client_settings,
        )
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
            follower.wait_for_last_event(_EVENT_WAIT_SECONDS_MAX)
        if committer is not None:
            committer.close()
        spark.streams.removeListener(listener)


class _Follower:
    """Hands finished batches to the report, and knows when the last event of the query came."""

    def __init__(
        self, report: Report, name: str, on_progress: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._report = report
        self._on_progress = on_progress
        self._name = name
        self._has_ended = False
        # Guards it, and is notified of each event.
        self._changed = threading.Condition()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the event of the query's end: that of the last batch comes before it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._has_ended, timeout_seconds)

    def wait_for_last_event(self, event_wait_seconds_max: float) -> bool:
        """Wait for the same, for as long as events come; whether it came.

        Events wait in a queue of Spark's, and each costs hundreds of calls from Python to the JVM:
        on a busy machine the last ones come long after the query's end.
        """
        with self._changed:
            while not self._has_ended:
                if not self._changed.wait(event_wait_seconds_max):
                    _log.warning(
                        "query %s: the events of its last batches have not come", self._name
                    )
                    return False
            return True

    def on_event(self, *, is_last: bool = False) -> None:
        """Note an event of the query."""
        with self._changed:
            self._has_ended = self._has_ended or is_last
            self._changed.notify_all()

    def listener(self) -> StreamingQueryListener:
        """What Spark calls, for every query of the session: only one is looked at."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        report, name, on_event = self._report, self._name, self.on_event
        on_progress = self._on_progress

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
                on_event()
                document = json.loads(event.progress.json)
                on_progress(document)
                progress = BatchProgress.of_spark(document)
                if progress.record_count:
                    report.batch(progress)

            def onQueryTerminated(self, event: Any) -> None:
                """No more events come."""
                if event.runId == self.run_id:
                    on_event(is_last=True)

        return Listener()


_RETRY_SECONDS: Final = 0.2
"""A query that is to be stopped may not have started yet: so often it is looked for again."""


def run_pair(
    spark: SparkSession,
    first: tuple[str, Callable[[], None]],
    second: tuple[str, Callable[[], None]],
) -> None:
    """Run two queries, each given as its name and the call that runs it; return when both ended.

    The failure of one stops the other, and is raised.
    """
    first_name, run_first = first
    second_name, run_second = second
    failures: list[Exception] = []
    first_has_ended = threading.Event()

    def beside() -> None:
        try:
            run_second()
        except Exception as error:
            failures.append(error)
            while not first_has_ended.wait(_RETRY_SECONDS):
                _stop(spark, first_name)

    thread = threading.Thread(target=beside, name=second_name)
    thread.start()
    try:
        run_first()
    except BaseException:
        first_has_ended.set()
        while thread.is_alive():
            _stop(spark, second_name)
            thread.join(_RETRY_SECONDS)
        raise
    first_has_ended.set()
    thread.join()
    if failures:
        raise failures[0]


def _stop(spark: SparkSession, name: str) -> None:
    for query in spark.streams.active:
        if query.name == name:
            query.stop()

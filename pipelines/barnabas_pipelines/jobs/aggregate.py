"""Counts, sums and percentiles per window of event time, from a topic to a topic.

    python -m barnabas_pipelines.jobs.aggregate --bootstrap-servers localhost:9092 \\
        --topic orders --target orders-per-minute --create-target --checkpoint ./checkpoint \\
        --group-by country --measures "count, sum(amount) as revenue, p99(amount)"

The sink is at-least-once: after a failure a batch is written again. A row's key is its window and
group, so what is written again replaces itself: the compacted view of the target, the newest row
per key, counts every record once, whatever was killed when. Who reads all rows sees earlier states
of a window, and some twice.

That holds as long as one driver at a time works with a checkpoint, the target keeps its number of
partitions, and the records are there to be read again.

Under the checkpoint are the query's (`aggregate/`), that of the dead letters (`dead-letters/`) and
the settings that its state depends on (`aggregate.json`).

Not here: what the options are (`aggregate_settings.py`), what is said of them before a run
(`aggregate_plan.py`), how windows are computed (`transforms`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import TopicGoneError
from barnabas_pipelines.jobs import aggregate_settings
from barnabas_pipelines.jobs.aggregate_plan import plan
from barnabas_pipelines.jobs.aggregate_settings import (
    DEAD_LETTER,
    FAIL,
    SETTINGS_FILE,
    Aggregation,
    check,
    check_remembered,
    remembered,
)
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.job import Job, main_of
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_pipelines.jobs.streaming import read_source, run_query
from barnabas_pipelines.ways import CONNECTOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.readwriter import DataStreamWriter

NAME: Final = "aggregate"
LETTERS_NAME: Final = "aggregate-dead-letters"
_QUERY_FOLDER: Final = "aggregate"
_LETTERS_FOLDER: Final = "dead-letters"
_COMPACTED: Final = {"cleanup.policy": "compact"}
_STATE_STORES: Final = {
    "memory": "HDFSBackedStateStoreProvider",
    "rocksdb": "RocksDBStateStoreProvider",
}
_STATE_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state"


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Run the query to its end.

    Raises: CheckpointMismatchError, TopicGoneError, QueryFailedError.
    """
    from barnabas_pipelines.storage.hadoop_files import open_store

    facts = ClusterFacts.of(settings)
    topic, target = settings["topic"], settings["target"]
    topic_id = facts.topic_ids([topic])[topic]
    checkpoint = open_store(spark, settings["checkpoint"])
    known = checkpoint.read(SETTINGS_FILE)
    if known is not None:
        check_remembered(known, settings, topic_id)
    _make_sure_of(target, settings, facts, report)
    if settings["dead-letter-topic"]:
        facts.topic_ids([settings["dead-letter-topic"]])
    if known is None:
        checkpoint.write(SETTINGS_FILE, remembered(settings, topic_id))
    tally = _Tally(report)
    listener = tally.listener()
    spark.streams.addListener(listener)
    try:
        with _configured(spark, settings):
            _run_queries(settings, spark, report, checkpoint.url())
    finally:
        spark.streams.removeListener(listener)
    report.line(tally.text())


def _run_queries(
    settings: JobSettings, spark: SparkSession, report: Report, checkpoint: str
) -> None:
    from barnabas_pipelines.jobs.query_pair import run_pair

    rows = aggregated(
        decoded(read_source(settings, spark, [settings["topic"]]), settings), settings
    )
    query_checkpoint = f"{checkpoint}/{_QUERY_FOLDER}"
    writer = _writer(rows, settings, settings["target"], query_checkpoint)

    def aggregate_all() -> None:
        mode = settings["output-mode"]
        checkpoint = query_checkpoint
        run_query(
            writer.outputMode(mode), settings, spark, report, name=NAME, checkpoint=checkpoint
        )

    if settings["undecodable"] != DEAD_LETTER:
        aggregate_all()
        return
    from barnabas_pipelines.transforms.dead_letters import dead_letters
    from barnabas_pipelines.transforms.decoding import only_undecodable

    records = read_source(settings, spark, [settings["topic"]], include_headers=True)
    undecodable = dead_letters(only_undecodable(decoded(records, settings)))
    letters_checkpoint = f"{checkpoint}/{_LETTERS_FOLDER}"
    letters = _writer(undecodable, settings, settings["dead-letter-topic"], letters_checkpoint)
    # Progress is shown by the query that aggregates; a group has one of them.
    quiet = replace(settings, values=MappingProxyType({**settings.values, "group": None}))

    def write_letters() -> None:
        unseen = _Unseen(LETTERS_NAME)
        run_query(letters, quiet, spark, unseen, name=LETTERS_NAME, checkpoint=letters_checkpoint)

    run_pair(spark, (NAME, aggregate_all), (LETTERS_NAME, write_letters))


def _writer(
    frame: DataFrame, settings: JobSettings, topic: str, checkpoint: str
) -> DataStreamWriter:
    """What writes a stream of records to a topic.

    Spark lets sinks that are written in Python only append; batch by batch they may update.
    """
    from barnabas_pipelines.sinks import write_topic, write_topic_stream

    via = settings["via"]
    options = {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        "topic": topic,
        **(settings["sink-option"] or {}),
    }
    if via == CONNECTOR:
        return write_topic_stream(frame, options, checkpoint=checkpoint, via=via)
    return frame.writeStream.foreachBatch(lambda batch, _: write_topic(batch, options, via=via))


def decoded(records: DataFrame, settings: JobSettings) -> DataFrame:
    """Records with their fields, event time and, where they cannot be used, the reason."""
    from pyspark.sql.types import StructType

    from barnabas_pipelines.transforms.decoding import (
        EventTime,
        TimeUnit,
        ValueFormat,
        decode_values,
        with_event_time,
        with_text_key,
    )

    aggregation = Aggregation.of(settings)
    fields = None if aggregation.fields is None else StructType.fromDDL(aggregation.fields)
    values = decode_values(records, ValueFormat(settings["value-format"]), fields)
    if any(group.path == "record.key" for group in aggregation.groups):
        values = with_text_key(values)
    if aggregation.event_time_field is None:
        return with_event_time(values)
    unit = settings["event-time-unit"]
    source = EventTime(
        field=aggregation.event_time_field,
        ahead_ms_max=settings["event-time-ahead-max"],
        unit=None if unit == "iso" else TimeUnit(unit),
    )
    return with_event_time(values, source)


def aggregated(records: DataFrame, settings: JobSettings) -> DataFrame:
    """The rows as `key` and `value`; records that have a reason are left out or refused."""
    from pyspark.sql import functions as sql

    from barnabas_pipelines.transforms.decoding import (
        REASON,
        only_decodable,
        refuse_undecodable,
    )
    from barnabas_pipelines.transforms.percentiles import PercentileMethod
    from barnabas_pipelines.transforms.windows import as_records, windowed

    aggregation = Aggregation.of(settings)
    if settings["undecodable"] == FAIL:
        usable = refuse_undecodable(records, "--undecodable says what else to do")
    else:
        count = sql.count_if(sql.col(REASON).isNotNull()).alias("undecodable")
        usable = only_decodable(records.observe("decoding", count))
    method = PercentileMethod(
        is_exact=settings["percentiles"] == "exact", accuracy=settings["percentile-accuracy"]
    )
    rows = windowed(
        usable, aggregation.window, aggregation.groups, aggregation.measures, method=method
    )
    return as_records(rows, aggregation.groups)


@contextmanager
def _configured(spark: SparkSession, settings: JobSettings) -> Iterator[None]:
    """Set what a query of this job needs of its session, and set it back."""
    provider = f"{_STATE_PACKAGE}.{_STATE_STORES[settings['state-store']]}"
    wanted = {
        "spark.sql.shuffle.partitions": str(settings["state-partitions"]),
        "spark.sql.streaming.stateStore.providerClass": provider,
        # Only what has changed is written after each batch, not a whole database.
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


class _Unseen(Report):
    """Of the query of the dead letters: it reads the same records, which are not told twice."""

    def batch(self, progress: BatchProgress) -> None:
        """Say nothing."""


class _Tally:
    """Counts what was left out, from Spark's progress, and says so with each batch."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._late = 0
        self._undecodable = 0

    def listener(self) -> StreamingQueryListener:
        """What Spark calls, for every query of the session: only one is looked at."""
        from pyspark.sql.streaming.listener import StreamingQueryListener

        add = self._add

        class Listener(StreamingQueryListener):
            """Hands on the progress of the query that aggregates."""

            def onQueryStarted(self, event: Any) -> None:
                """Nothing to count."""

            def onQueryProgress(self, event: Any) -> None:
                """Count."""
                if event.progress.name == NAME:
                    add(json.loads(event.progress.json))

            def onQueryIdle(self, event: Any) -> None:
                """Nothing to count."""

            def onQueryTerminated(self, event: Any) -> None:
                """Nothing to count."""

        return Listener()

    def text(self) -> str:
        """The sums of this run."""
        return (
            f"{self._report.record_count:,} records read, {self._undecodable:,} undecodable left "
            f"out, {self._late:,} late groups dropped"
        )

    def _add(self, progress: dict[str, Any]) -> None:
        late, undecodable = aggregate_settings.facts_of(progress)
        self._late += late
        self._undecodable += undecodable
        if late or undecodable:
            self._report.line(
                f"batch {progress['batchId']}: {undecodable:,} undecodable records left out, "
                f"{late:,} groups of late records dropped"
            )


def _make_sure_of(target: str, settings: JobSettings, facts: ClusterFacts, report: Report) -> None:
    """Create the target if it is missing and that is wanted. Raises: TopicGoneError."""
    try:
        facts.topic_ids([target])
    except TopicGoneError:
        if not settings["create-target"]:
            raise TopicGoneError(
                f"the target {target} does not exist: create it with cleanup.policy=compact, or "
                "give --create-target"
            ) from None
        count = facts.partition_count(settings["topic"])
        facts.create_topic(target, count, _COMPACTED)
        report.line(f"created {target}, compacted, with {count} partitions")


JOB: Final = Job(
    name=NAME,
    summary="Counts, sums and percentiles per window of event time and group, with a watermark, "
    "from a topic to a topic.",
    options=aggregate_settings.OPTIONS,
    plan=plan,
    run=run,
    check=check,
)

if __name__ == "__main__":
    sys.exit(main_of(NAME))

"""Counts, sums and percentiles per window of event time, from a topic to a topic.

    python -m barnabas_pipelines.jobs.aggregate --bootstrap-servers localhost:9092 \\
        --topic orders --target orders-per-minute --create-target --checkpoint ./checkpoint \\
        --group-by country --measures "count, sum(amount) as revenue, p99(amount)"

After a failure a batch is written again. A row's key is its window and group, so what is written
again replaces itself: the compacted view of the target, the newest row per key, counts every record
once, whatever was killed when. Who reads all rows sees earlier states of a window, and some twice.

The driver writes, and a driver that was given up is fenced by the next one (`aggregate/`). Rows are
read to their end, and then the topics are looked at, before any is written: their ids, and that the
target has as many partitions as when the checkpoint was made. It holds as long as the records are
there to be read again.

Under the checkpoint are the query's (`aggregate/`), that of the dead letters (`dead-letters/`), the
settings that its state depends on (`aggregate.json`) and the line of those that wrote (`writers/`).

Not here: what the options are (`aggregate_settings.py`), how windows are computed (`transforms`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import TopicGoneError, UnreachableError
from barnabas_pipelines.jobs import aggregate_settings
from barnabas_pipelines.jobs.aggregate_settings import (
    DEAD_LETTER,
    FAIL,
    SETTINGS_FILE,
    Aggregation,
    check,
    check_remembered,
    remembered,
    remembered_partition_count,
)
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts, SameTopics
from barnabas_pipelines.jobs.common_options import producer_settings
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report
from barnabas_pipelines.jobs.registry_options import Readings
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_pipelines.jobs.streaming import QueryFailedError, read_source, run_query, trigger_text
from barnabas_pipelines.storage.file_store import FileStore
from barnabas_pipelines.transforms.measures import Measure
from barnabas_protocol.settings.durations import exact_duration_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
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

    Raises: CheckpointMismatchError, TopicGoneError, PipelineError, QueryFailedError.
    """
    from barnabas_pipelines.storage.hadoop_files import open_store

    facts = ClusterFacts.of(settings)
    topic, target = settings["topic"], settings["target"]
    checkpoint = open_store(spark, settings["checkpoint"])
    known = checkpoint.read(SETTINGS_FILE)
    topic_id = facts.topic_ids([topic])[topic]
    if known is not None:
        check_remembered(known, settings, topic_id, None)
    _make_sure_of(target, settings, facts, report)
    letters = settings["dead-letter-topic"]
    ids = facts.topic_ids([topic, target, *([letters] if letters else [])])
    count = facts.partition_count(target)
    if known is None:
        checkpoint.write(SETTINGS_FILE, remembered(settings, ids[topic], ids[target], count))
    else:
        check_remembered(known, settings, ids[topic], ids[target])
        count = remembered_partition_count(known)
    same_topics = SameTopics(facts, ids, {target: count})
    same_topics.check()
    sinks = _Sinks(settings, facts, checkpoint, same_topics)
    tally = _Tally(report)
    try:
        with _configured(spark, settings):
            _run_queries(settings, spark, report, sinks, tally)
    except QueryFailedError:
        # What Spark says of a topic that was made anew depends on which offsets it has now.
        with suppress(UnreachableError):
            sinks.same_topics.check()
        raise
    report.line(tally.text())


class _Sinks:
    """Writers of the job's topics, each with its place in the line of its checkpoint."""

    def __init__(
        self,
        settings: JobSettings,
        cluster: ClusterFacts,
        checkpoint: FileStore,
        same_topics: SameTopics,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._checkpoint = checkpoint
        self.same_topics = same_topics

    def checkpoint_of(self, folder: str) -> str:
        """Where a query keeps what it needs to go on."""
        return self._checkpoint.url(folder)

    @contextmanager
    def writing(self, frame: DataFrame, topic: str, folder: str) -> Iterator[DataStreamWriter]:
        """What writes a stream of records to a topic, while the context lasts.

        The place is taken before the query reads its checkpoint: a run that comes later knows
        what this one had finished.
        """
        from barnabas_pipelines.aggregate.topic_writer import open_writer, rows_of
        from barnabas_pipelines.aggregate.writer_epochs import WriterEpochs
        from barnabas_pipelines.transforms.once import read_once

        epochs = WriterEpochs(self._checkpoint, folder)
        producer = producer_settings(self._settings, topic)
        with open_writer(epochs, topic, producer, self._cluster) as writer:

            def write(batch: DataFrame, _: int) -> None:
                with read_once(batch) as kept:
                    self.same_topics.check()
                    if kept.count:
                        writer.write(rows_of(kept.rows, kept.count))
                        self.same_topics.check()

            yield frame.writeStream.foreachBatch(write)


def _run_queries(
    settings: JobSettings, spark: SparkSession, report: Report, sinks: _Sinks, tally: _Tally
) -> None:
    from barnabas_pipelines.jobs.streaming import run_pair

    rows = aggregated(
        decoded(read_source(settings, spark, [settings["topic"]]), settings), settings
    )

    def aggregate_all() -> None:
        with sinks.writing(rows, settings["target"], _QUERY_FOLDER) as writer:
            run_query(
                writer.outputMode(settings["output-mode"]),
                settings,
                spark,
                report,
                name=NAME,
                checkpoint=sinks.checkpoint_of(_QUERY_FOLDER),
                on_progress=tally.add,
            )

    if settings["undecodable"] != DEAD_LETTER:
        aggregate_all()
        return
    from barnabas_pipelines.transforms.decoding import dead_letters, only_undecodable

    records = read_source(settings, spark, [settings["topic"]], include_headers=True)
    undecodable = dead_letters(only_undecodable(decoded(records, settings)))
    # Progress is shown by the query that aggregates; a group has one of them.
    quiet = replace(settings, values=MappingProxyType({**settings.values, "group": None}))

    def write_letters() -> None:
        unseen = _Unseen(LETTERS_NAME)
        topic = settings["dead-letter-topic"]
        with sinks.writing(undecodable, topic, _LETTERS_FOLDER) as letters:
            checkpoint = sinks.checkpoint_of(_LETTERS_FOLDER)
            run_query(letters, quiet, spark, unseen, name=LETTERS_NAME, checkpoint=checkpoint)

    run_pair(spark, (NAME, aggregate_all), (LETTERS_NAME, write_letters))


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
    reading = Readings.of(settings).value
    values = decode_values(records, ValueFormat(settings["value-format"]), fields, reading)
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
    from barnabas_pipelines.transforms.windows import PercentileMethod, as_records, windowed

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
    """Of the query of the dead letters: it reads the same records, which are not reported twice."""

    def batch(self, progress: BatchProgress) -> None:
        """Say nothing."""


class _Tally:
    """Counts what was left out, from Spark's progress, and says so with each batch."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._late = 0
        self._undecodable = 0

    def text(self) -> str:
        """The sums of this run."""
        return (
            f"{self._report.record_count:,} records read, {self._undecodable:,} undecodable left "
            f"out, {self._late:,} late groups dropped"
        )

    def add(self, progress: Mapping[str, Any]) -> None:
        """Count, from the JSON of the progress of a batch."""
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


def plan(settings: JobSettings) -> Plan:
    """What is going to be done, with what the cluster says now.

    Raises: TopicGoneError, UnreachableError.
    """
    aggregation = Aggregation.of(settings)
    facts = ClusterFacts.of(settings)
    (source,) = facts.topics([settings["topic"]]).values()
    window = aggregation.window
    every = (
        ""
        if window.windows_per_record == 1
        else f", one every {exact_duration_text(window.slide_ms)}"
    )
    return (
        (
            "reads",
            f"{source.name}: {len(source.ends)} partitions, {source.record_count_max:,} offsets, "
            f"from {settings['starting-offsets']} on the first run, then from the checkpoint",
        ),
        ("when", trigger_text(settings)),
        ("computes", ", ".join(f"{_of(one)} as {one.name}" for one in aggregation.measures)),
        (
            "per",
            f"window of {exact_duration_text(window.length_ms)}{every} over "
            f"{aggregation.event_time_field or 'the time of the record'}"
            + "".join(f", {group.path}" for group in aggregation.groups),
        ),
        *_percentile_lines(settings, aggregation),
        (
            "late",
            f"records {exact_duration_text(window.watermark_ms)} older than the newest are "
            "dropped and counted; "
            "the last windows stay open until newer records come",
        ),
        ("undecodable", _undecodable_text(settings)),
        ("writes", _target_text(settings, facts, len(source.ends))),
        (
            "remembers",
            f"{settings['checkpoint']}, in {settings['state-partitions']} partitions of "
            f"{settings['state-store']}; only watermark, policies and limits can change",
        ),
        (
            "guarantees",
            "the newest row per key counts every record that is not late exactly once, also after "
            "a failure: a batch that is repeated writes the same keys again. Sums of DOUBLE may "
            "then differ in their last digits, DECIMAL ones not",
        ),
    )


def _target_text(settings: JobSettings, facts: ClusterFacts, partition_count: int) -> str:
    target = settings["target"]
    mode = {
        "update": "a row whenever it has changed",
        "append": "a row once, when the watermark has passed its window",
    }[settings["output-mode"]]
    try:
        facts.topic_ids([target])
    except TopicGoneError:
        if settings["create-target"]:
            there = f"created, compacted, with {partition_count} partitions"
        else:
            there = "MISSING: create it, or give --create-target"
    else:
        policy = facts.topic_setting(target, "cleanup.policy") or "unknown"
        there = f"cleanup.policy {policy}"
        if "compact" not in policy:
            there += ": it keeps every row, so readers must take the newest per key themselves"
    return f"{target} ({there}): {mode}, keyed by window and group"


def _undecodable_text(settings: JobSettings) -> str:
    return {
        FAIL: "the job fails and names the record; nothing of its batch is written",
        DEAD_LETTER: f"written to {settings['dead-letter-topic']} with the reason in a header "
        "(some twice after a failure), left out and counted",
    }.get(settings["undecodable"], "left out, counted in the progress")


def _percentile_lines(settings: JobSettings, aggregation: Aggregation) -> Iterator[tuple[str, str]]:
    if any(one.percentile is not None for one in aggregation.measures):
        if settings["percentiles"] == "exact":
            yield "percentiles", "exact, with every distinct value in the state"
        else:
            accuracy = settings["percentile-accuracy"]
            yield (
                "percentiles",
                f"approximate: their rank is off by {1 / accuracy:.2%} of the count at most",
            )


def _of(measure: Measure) -> str:
    if measure.percentile is not None:
        return f"p{measure.percentile:g}({measure.field})"
    return measure.kind.value if measure.field is None else f"{measure.kind.value}({measure.field})"


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

"""quality: the records of a topic against a schema and rules; bad ones to a dead-letter topic.

    python -m barnabas_pipelines.jobs.quality --config quality.yaml

    bootstrap-servers: localhost:9092
    topic: orders
    fields: order_id BIGINT, email STRING, amount DOUBLE, currency STRING
    required: [order_id, amount]
    rules:
      - {field: amount, range: {above: 0, max: 10000}}
      - {field: currency, set: [EUR, USD]}
      - {name: paid-in-full, expression: paid >= amount OR state = 'open'}
    dead-letter-topic: orders-bad
    checkpoint: /data/quality/orders

A record that cannot be decoded is a bad record like others. What is guaranteed: each record is
judged; each bad one is in the dead-letter topic at least once, each good one in the good topic, if
there is one, at least once. A batch that is repeated after a failure is written again; topic,
partition and offset in a letter's headers tell which letters are the same one.

Offsets in a checkpoint mean records of one topic, so its id stands beside them (`quality.json`):
one that was deleted and made anew is refused, at the start and at each batch, before anything is
written.

Rules and settings are checked before anything is read. Not here: what rules mean
(`transforms/rule_parsing.py`, `transforms/rules.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.errors import OptionsError, PipelineError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts, SameTopics
from barnabas_pipelines.jobs.common_options import sink_options
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report, print_summary
from barnabas_pipelines.jobs.quality_settings import (
    BATCH,
    OPTIONS,
    STREAM,
    all_rules,
    check,
    required_rule,
)
from barnabas_pipelines.jobs.quality_tally import Tally
from barnabas_pipelines.jobs.registry_options import Readings
from barnabas_pipelines.jobs.settings import JobSettings
from barnabas_pipelines.jobs.streaming import (
    read_source,
    run_query,
    source_options,
    trigger_text,
)
from barnabas_pipelines.transforms.rule_parsing import Rule, RuleKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from barnabas_pipelines.tables.dead_letters import DeadLetterTable

NAME: Final = "quality"
_ANSI: Final = "spark.sql.ansi.enabled"
_IDS_FILE: Final = "quality.json"


class QualityError(PipelineError):
    """More records are bad than the settings allow; all of them were judged and written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What records are held against; `fields` are those of JSON values."""

    rules: tuple[Rule, ...]
    value_format: str
    fields: StructType | None
    readings: Readings
    refuses_unknown_fields: bool
    allows_tombstones: bool


def plan(settings: JobSettings) -> Plan:
    """What is going to be read, judged and written. Raises: TopicGoneError, UnreachableError."""
    topic = settings["topic"]
    targets = [settings[name] for name in ("dead-letter-topic", "good-topic") if settings[name]]
    facts = ClusterFacts.of(settings).topics([topic, *targets])[topic]
    is_stream = settings["mode"] == STREAM
    source = f"{topic}: {len(facts.ends)} partitions, at most {facts.record_count_max:,} records"
    rules = all_rules(settings)
    lines = [
        ("reads", f"{source}, by {settings['via']}"),
        ("from", ("the checkpoint, else " if is_stream else "") + settings["starting-offsets"]),
        ("until", trigger_text(settings) if is_stream else settings["ending-offsets"]),
        ("decodes", _decoding(settings)),
        *Readings.of(settings).plan_lines(),
    ]
    lines += [("rule", f"{rule.name}: {rule.text}") for rule in rules]
    letters = settings["dead-letter-topic"]
    table = settings["dead-letter-table"]
    places = [f"to {letters}, with reasons in headers"] if letters else []
    places += [f"to the table {table}, each once"] if table else []
    lines += [("bad ones", "; ".join(places) or "counted only")]
    if settings["good-topic"]:
        lines.append(("good ones", f"to {settings['good-topic']}, as they are"))
    lines += [
        (name, f"counts, in {settings[name]}") for name in ("report", "metrics") if settings[name]
    ]
    if settings["group"]:
        lines.append(("progress", f"in the consumer group {settings['group']}"))
    if settings["fail-above"] is not None:
        lines.append(("fails", f"if more than {settings['fail-above']:.2%} are bad"))
    once = "; in the table exactly once" if table else ""
    lines.append(("guarantees", f"each record is judged; what is written, is at least once{once}"))
    return lines


def _decoding(settings: JobSettings) -> str:
    fields = f" with {' '.join(settings['fields'].split())}" if settings["fields"] else ""
    return f"values as {settings['value-format']}{fields}"


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Judge what is there, or what comes.

    Raises: OptionsError for a rule that cannot be evaluated; TopicGoneError; QualityError;
        QueryFailedError.
    """
    with _without_ansi(spark):
        checks = _checks(settings, spark)
        cluster = ClusterFacts.of(settings)
        ids = cluster.topic_ids([settings["topic"]])
        if settings["mode"] == STREAM:
            ids = _remembered_ids(spark, settings["checkpoint"], ids)
        same_topic = SameTopics(cluster, ids)
        same_topic.check()
        inspection = _Inspection(settings, checks, spark, same_topic)
        if settings["mode"] == BATCH:
            records = _read_batch(settings, spark)
            inspection.take(records, 0)
            report.batch(inspection.progress())
        else:
            topics = [settings["topic"]]
            stream = read_source(settings, spark, topics, include_headers=True)
            writer = stream.writeStream.foreachBatch(inspection.take)
            run_query(writer, settings, spark, report, name=NAME)
    inspection.finish(report)


def _remembered_ids(
    spark: SparkSession, checkpoint: str, now: Mapping[str, str | None]
) -> dict[str, str | None]:
    """The ids that the topics of a checkpoint had when it was begun; those of now if it is begun.

    Raises: PipelineError if the file is of something else.
    """
    from barnabas_pipelines.storage.hadoop_files import open_store

    store = open_store(spark, checkpoint)
    text = store.read(_IDS_FILE)
    if text is None:
        store.write(_IDS_FILE, json.dumps({"topic_ids": dict(now)}) + "\n")
        return dict(now)
    try:
        known = dict(json.loads(text)["topic_ids"])
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"{store.url(_IDS_FILE)} cannot be read: {error!r}") from None
    if known.keys() != now.keys():
        raise PipelineError(
            f"the checkpoint {checkpoint} is of {', '.join(known)}: another topic needs its own"
        )
    return known


class _Inspection:
    """Judges batches, writes what is to be written, counts."""

    def __init__(
        self, settings: JobSettings, checks: Checks, spark: SparkSession, same_topic: SameTopics
    ) -> None:
        self._settings = settings
        self._checks = checks
        self._spark = spark
        self._same_topic = same_topic
        self._tally = Tally(topic=settings["topic"], rules=checks.rules)
        path = settings["dead-letter-table"]
        self._table = _table(spark, path) if path else None

    def take(self, records: DataFrame, _: int) -> None:
        """Judge one batch; all is written when this returns."""
        from barnabas_pipelines.transforms.rules import counts

        judged = judged_records(records, self._checks)
        places = ("dead-letter-topic", "dead-letter-table", "good-topic")
        is_read_again = any(self._settings[place] for place in places)
        if is_read_again:
            judged.persist()
        try:
            found = counts(judged, self._checks.rules)
            # The same before the first record was read and now: all that was read is of it.
            self._same_topic.check()
            self._write(judged, bad_count=found[1], good_count=found[0] - found[1])
        finally:
            judged.unpersist()
        self._tally.add(*found)
        self._publish()

    def progress(self) -> BatchProgress:
        """What is known of a batch that Spark does not report about."""
        count = self._tally.record_count
        return BatchProgress(batch_id=0, record_count=count, records_per_second=0, duration_ms=0)

    def finish(self, report: Report) -> None:
        """Tell what was found. Raises: QualityError."""
        report.close()
        self._publish()
        print_summary(self._tally.as_table())
        limit, share = self._settings["fail-above"], self._tally.bad_share
        if limit is not None and share > limit:
            raise QualityError(
                f"{self._tally.bad_count:,} of {self._tally.record_count:,} records are bad, "
                f"{share:.2%}; the limit is {limit:.2%}"
            )

    def _write(self, judged: DataFrame, *, bad_count: int, good_count: int) -> None:
        from pyspark.sql import functions as sql

        from barnabas_pipelines.transforms.decoding import dead_letters
        from barnabas_pipelines.transforms.rules import JUDGEMENT, with_rule_header

        ordered = judged
        if any(rule.kind is RuleKind.UNIQUE for rule in self._checks.rules):
            # Finding doubles has mixed partitions and offsets.
            ordered = judged.repartition("topic", "partition").sortWithinPartitions("offset")
        if self._table is not None and bad_count:
            topic_id = self._same_topic.ids[self._settings["topic"]]
            self._table.add(judged.where(sql.col(JUDGEMENT).isNotNull()), topic_id)
        letters, good = self._settings["dead-letter-topic"], self._settings["good-topic"]
        if letters and bad_count:
            bad = with_rule_header(ordered.where(sql.col(JUDGEMENT).isNotNull()))
            self._send(dead_letters(bad, JUDGEMENT), letters)
        if good and good_count:
            kept = ordered.where(sql.col(JUDGEMENT).isNull())
            self._send(kept.select("key", "value", "headers", "timestamp"), good)

    def _send(self, rows: DataFrame, topic: str) -> None:
        """Always by the Python sink: it keeps timestamps, and needs no jars."""
        from barnabas_pipelines.sinks import write_topic

        write_topic(rows, sink_options(self._settings, topic), via="python")

    def _publish(self) -> None:
        from barnabas_pipelines.storage.hadoop_files import open_store

        for name, text in (
            ("report", self._tally.as_json()),
            ("metrics", self._tally.as_metrics()),
        ):
            if self._settings[name]:
                folder, file = split_path(self._settings[name])
                open_store(self._spark, folder).write(file, text)


def _table(spark: SparkSession, path: str) -> DeadLetterTable:
    from barnabas_pipelines.tables.dead_letters import DeadLetterTable
    from barnabas_pipelines.tables.delta import DeltaTable

    return DeadLetterTable(DeltaTable(spark, path))


def split_path(path: str) -> tuple[str, str]:
    """The folder and the name of a file, which may be anywhere that Spark knows."""
    folder, slash, name = path.rpartition("/")
    if not slash:
        return str(PurePosixPath(".")), name
    return folder or "/", name


def judged_records(records: DataFrame, checks: Checks) -> DataFrame:
    """Records of a topic with what is found: columns as `rules.judge` adds them."""
    from pyspark.sql import functions as sql

    from barnabas_pipelines.transforms.decoding import REASON
    from barnabas_pipelines.transforms.rules import BROKEN, JUDGEMENT, judge, refuse_unknown_fields

    decoded = _decoded(records, checks)
    if checks.refuses_unknown_fields and checks.fields is not None:
        decoded = refuse_unknown_fields(decoded, checks.fields)
    judged = judge(decoded, checks.rules)
    if not checks.allows_tombstones:
        return judged
    is_tombstone = sql.col("value").isNull()
    nothing = sql.lit(None).cast("string")
    return judged.withColumns(
        {
            JUDGEMENT: sql.when(is_tombstone, nothing).otherwise(sql.col(JUDGEMENT)),
            REASON: sql.when(is_tombstone, nothing).otherwise(sql.col(REASON)),
            BROKEN: sql.when(is_tombstone, sql.array().cast("array<string>")).otherwise(
                sql.col(BROKEN)
            ),
        }
    )


def _decoded(records: DataFrame, checks: Checks) -> DataFrame:
    from barnabas_pipelines.transforms.decoding import ValueFormat, decode_keys, decode_values

    value_format = ValueFormat(checks.value_format)
    decoded = decode_values(records, value_format, checks.fields, checks.readings.value)
    key = checks.readings.key
    return decoded if key is None else decode_keys(decoded, key)


def _checks(settings: JobSettings, spark: SparkSession) -> Checks:
    """The schema and the rules, proven on records that are none. Raises: OptionsError."""
    from barnabas_pipelines.schema import ddl
    from barnabas_pipelines.transforms.rules import check_rules

    fields = parse_fields(settings["fields"]) if settings["fields"] else None
    declared = [field.name for field in fields.fields if not field.nullable] if fields else []
    missing = [name for name in declared if name not in (settings["required"] or ())]
    rules = (*(required_rule(name) for name in missing), *all_rules(settings))
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise OptionsError(f"--rules: a field that is required has the rule {name} already")
    none = spark.createDataFrame([], ddl(include_headers=True))
    checks = Checks(
        rules=rules,
        value_format=settings["value-format"],
        fields=fields,
        readings=Readings.of(settings),
        refuses_unknown_fields=settings["unknown-fields"] == "refuse",
        allows_tombstones=settings["tombstones"] == "good",
    )
    check_rules(spark, _decoded(none, checks), rules)
    return checks


def parse_fields(text: str) -> StructType:
    """A schema in Spark's words, or its JSON. Needs a session. Raises: OptionsError."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(text))
        found = StructType.fromDDL(text)
    except (PySparkException, ValueError, KeyError, TypeError) as error:
        (line, *_) = str(error).strip().splitlines() or [type(error).__name__]
        raise OptionsError(f"--fields: {line}") from None
    if not isinstance(found, StructType):
        raise OptionsError(
            "--fields: it must be a list of names and types, such as a INT, b STRING"
        )
    return found


def _read_batch(settings: JobSettings, spark: SparkSession) -> DataFrame:
    from barnabas_pipelines.sources import read_topic

    options = source_options(settings, [settings["topic"]], include_headers=True)
    options["endingOffsets"] = settings["ending-offsets"]
    return read_topic(spark, options, via=settings["via"])


@contextmanager
def _without_ansi(spark: SparkSession) -> Iterator[None]:
    """With ANSI mode one division by zero in one record would end the query."""
    before = spark.conf.get(_ANSI)
    spark.conf.set(_ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, before or "true")


JOB: Final = Job(
    name=NAME,
    summary="Judges the records of a topic by a schema and rules; counts what is wrong, and "
    "writes bad records with the reasons to a dead-letter topic.",
    options=OPTIONS,
    plan=plan,
    run=run,
    check=check,
)


if __name__ == "__main__":
    sys.exit(main_of("quality"))

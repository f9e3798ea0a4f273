"""The latest value of each key of a topic, as a table that each run brings up to date.

    python -m barnabas_pipelines.jobs.snapshot --bootstrap-servers localhost:9092 \\
        --topic users --table /data/users --value-format json --fields "name STRING, age INT"

A run fixes the end of the topic, reads what was appended since the last run, and merges it into the
table in one commit. It can be killed anywhere and run again. Records without a value delete their
key.

A key belongs in one partition; see `transforms/latest.py` for what happens with one that moved.

Not here: the rows (`snapshot/table_rows.py`), when a run cannot go on from the table
(`snapshot/ranges.py`), who comes first among the records of a key (`transforms/latest.py`).
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import TYPE_CHECKING, Final

from barnabas_client.env import Clock, SystemClock
from barnabas_pipelines.errors import OptionsError, PipelineError, failure_line
from barnabas_pipelines.jobs import registry_options
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.common_options import (
    GROUP,
    READ_COMMITTED,
    SESSION_OPTIONS,
    SOURCE_OPTIONS,
    TABLE_OPTIONS,
    check_ranges_are_own,
    upkeep,
)
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.jobs.registry_options import REGISTRY, Readings, check_registry
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.snapshot.ranges import (
    KIND,
    ReadRange,
    SnapshotFacts,
    TopicChangedError,
    TopicState,
    check_deadline,
    facts_of,
    next_range,
)
from barnabas_pipelines.tables.table import Table
from barnabas_protocol.settings.kinds import BOOLEAN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas_pipelines.snapshot.table_rows import SnapshotWriter

NAME: Final = "snapshot"
FAIL: Final = "fail"

OPTIONS: Final = (
    JobOption("topic", "The topic to read; a compacted one.", is_required=True),
    JobOption(
        "table",
        "The table: a folder on any file system that Spark and Delta Lake know.",
        is_required=True,
    ),
    *SOURCE_OPTIONS,
    JobOption(
        "key-format",
        "With text, a column key_text has the key as text; null where it is not UTF-8. "
        "With registry, a column key_fields has what its schema says.",
        choices=("raw", "text", "registry"),
        default="raw",
    ),
    JobOption(
        "value-format",
        "With any but raw, a column fields has the value decoded: what --fields says of "
        "JSON objects, what its schema in --schema-registry says, or one field called value.",
        choices=("raw", "text", "number", "json", "registry"),
        default="raw",
    ),
    *registry_options.VALUE_OPTIONS,
    *registry_options.KEY_OPTIONS,
    JobOption(
        "fields",
        "The fields of JSON values, as Spark writes schemas: name STRING, age INT. They "
        "may change from run to run: the bytes are kept and decoded anew.",
    ),
    JobOption(
        "undecodable",
        "What becomes of rows that cannot be decoded: the job fails and names one; or they "
        "are kept with their bytes, no fields and the reason in undecodable_reason, and counted.",
        choices=(FAIL, "keep"),
        default=FAIL,
    ),
    JobOption(
        "keyless",
        "What becomes of records without a key: the job fails and names one; or they are "
        "counted and left out.",
        choices=(FAIL, "count-and-skip"),
        default=FAIL,
    ),
    JobOption(
        "include-headers",
        "Keep the headers of records, in a column headers.",
        kind=BOOLEAN,
        default=False,
    ),
    JobOption(
        "rebuild",
        "Read the whole topic anew instead of going on from the table.",
        kind=BOOLEAN,
        default=False,
    ),
    *TABLE_OPTIONS,
    GROUP,
    *SESSION_OPTIONS,
)


class SnapshotFailedError(PipelineError):
    """Reading or writing failed; the table is as it was. The text says why, on one line."""


def check(settings: JobSettings) -> None:
    """Refuse settings that contradict each other. Raises: OptionsError."""
    if (settings["value-format"] == "json") != (settings["fields"] is not None):
        raise OptionsError("--value-format json needs --fields, and no other format has any")
    check_ranges_are_own(settings)
    check_registry(settings)


def plan(settings: JobSettings) -> Plan:
    """What is going to be done, with what the cluster says now.

    Raises: TopicGoneError, UnreachableError.
    """
    name = settings["topic"]
    facts = ClusterFacts.of(settings)
    (topic,) = facts.topics([name], read_committed=True).values()
    policy = facts.topic_setting(name, "cleanup.policy") or "unknown"
    start = "all of it" if settings["rebuild"] else "what was appended since the last run"
    return (
        (
            "reads",
            f"{name}: {start}, up to the end as it is when the run begins ({len(topic.ends)} "
            f"partitions, {topic.record_count_max:,} offsets in all, cleanup.policy {policy})",
        ),
        ("keeps", "the last record of each key; one without a value deletes its key"),
        (
            "moved keys",
            "within a partition the highest offset counts. A key in several partitions: what a "
            "later run reads wins, within a run the newest timestamp; such keys are counted",
        ),
        (
            "without key",
            "the job fails" if settings["keyless"] == FAIL else "records are counted and left out",
        ),
        ("decodes", _decoding_text(settings)),
        *Readings.of(settings).plan_lines(),
        (
            "writes",
            f"{settings['table']}: one commit to a table of Delta Lake; older versions can be read "
            "until --vacuum deletes their files",
        ),
        (
            "guarantees",
            "a reader sees the table at the end that its run has fixed. Killed anywhere, a run "
            "changes nothing or is complete; run it again. Of two runs at once one is refused",
        ),
    )


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Bring the table up to date.

    Raises: what `next_range` does, SnapshotFailedError, SecondWriterError.
    """
    take_snapshot(settings, spark, report, table_of(settings, spark), SystemClock())


def table_of(settings: JobSettings, spark: SparkSession) -> Table:
    """The table that the settings name."""
    from barnabas_pipelines.tables.delta import DeltaTable

    return DeltaTable(
        spark,
        settings["table"],
        file_bytes=settings["file-size-target"],
        compression=settings["compression"],
    )


def take_snapshot(
    settings: JobSettings, spark: SparkSession, report: Report, table: Table, clock: Clock
) -> None:
    """Bring the table up to date; see `run`."""
    state = table.state()
    state.check_kind(KIND)
    last = None if settings["rebuild"] else facts_of(state)
    facts = ClusterFacts.of(settings)
    topic = _state_of(settings["topic"], facts, clock, last)
    found = next_range(topic, last, has_headers=settings["include-headers"])
    readings = Readings.of(settings)
    decoding = _decoding(settings, readings)
    mark = _after(topic, settings, decoding).mark(state, uuid.uuid4().hex)
    writer = _writer(settings, readings, table)
    if last is not None and not found.ends and last.decoding == decoding:
        writer.refresh(mark)
        report.line("nothing new: the table is up to date")
    else:
        report.line(f"reading {found.offset_count:,} offsets of {len(found.ends)} partitions")

        def check_read() -> None:
            check_deadline(topic, found, clock.wall_ms())
            _check_still_there(topic, facts)

        try:
            records = _records(settings, spark, found) if found.ends else None
            if records is not None and last is not None and last.decoding == decoding:
                counts = writer.merge(records, mark, check_read)
            else:
                counts = writer.write(records, mark, check_read, is_rebuilt=last is None)
        except PipelineError:
            raise
        except Exception as error:  # whatever Spark or a worker raised
            raise SnapshotFailedError(failure_line(error)) from error
        report.line(f"version {table.state().version:,}: {counts.text()}")
    for line in upkeep(table, settings):
        report.line(line)
    facts.show_progress(settings["group"], {topic.name: topic.ends}, report.line)


def _state_of(
    name: str, facts: ClusterFacts, clock: Clock, last: SnapshotFacts | None
) -> TopicState:
    """The topic, and the time before it was looked at."""
    seen_at_ms = clock.wall_ms()
    (topic,) = facts.topics([name], read_committed=True).values()
    policy = facts.topic_setting(name, "cleanup.policy")
    if policy is None:
        raise PipelineError(
            f"the brokers do not tell the settings of topic {name}, so nobody knows how long its "
            "deletions can be read: this user needs DescribeConfigs on it, besides Read"
        )
    tombstone = facts.topic_setting(name, "delete.retention.ms") if "compact" in policy else None
    is_known = last is not None and (last.topic, last.topic_id) == (name, topic.topic_id)
    epochs = last.epochs if is_known and last is not None else {}
    wanted = {one: epoch for one, epoch in epochs.items() if one in topic.ends}
    return TopicState(
        name=name,
        topic_id=topic.topic_id,
        starts=topic.starts,
        ends=topic.ends,
        epochs=topic.epochs,
        epoch_ends=facts.epoch_ends(name, wanted),
        seen_at_ms=seen_at_ms,
        tombstone_ms=None if tombstone is None else int(tombstone),
    )


def _check_still_there(topic: TopicState, facts: ClusterFacts) -> None:
    """Make sure that what was read came from the topic that was looked at. Raises: as named."""
    topic_id = facts.topic_ids([topic.name])[topic.name]
    if topic_id != topic.topic_id:
        raise TopicChangedError(
            f"topic {topic.name} was deleted and made again while it was read: the table is as it "
            "was. Run with --rebuild"
        )


def _after(topic: TopicState, settings: JobSettings, decoding: str) -> SnapshotFacts:
    """The facts that the commit carries."""
    return SnapshotFacts(
        topic=topic.name,
        topic_id=topic.topic_id,
        next_offsets=topic.ends,
        epochs=topic.epochs,
        complete_at_ms=topic.seen_at_ms,
        has_headers=settings["include-headers"],
        decoding=decoding,
    )


def _writer(settings: JobSettings, readings: Readings, table: Table) -> SnapshotWriter:
    from barnabas_pipelines.snapshot.table_rows import RowSettings, SnapshotWriter
    from barnabas_pipelines.transforms.decoding import ValueFormat

    wanted = RowSettings(
        value_format=ValueFormat(settings["value-format"]),
        fields=settings["fields"],
        has_text_key=settings["key-format"] == "text",
        has_headers=settings["include-headers"],
        fails_on_undecodable=settings["undecodable"] == FAIL,
        fails_on_keyless=settings["keyless"] == FAIL,
        value_reading=readings.value,
        key_reading=readings.key,
    )
    return SnapshotWriter(table, wanted)


def _records(settings: JobSettings, spark: SparkSession, found: ReadRange) -> DataFrame:
    """The records of the range."""
    from barnabas_pipelines.sources import read_topic

    topic = settings["topic"]
    options = {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        **READ_COMMITTED,
        **(settings["source-option"] or {}),
        "assign": json.dumps({topic: sorted(found.ends)}),
        "startingOffsets": json.dumps({topic: found.starts}),
        "endingOffsets": json.dumps({topic: found.ends}),
        "failOnDataLoss": "true",
        "includeHeaders": str(settings["include-headers"]).lower(),
    }
    return read_topic(spark, options, via=settings["via"])


def _decoding(settings: JobSettings, readings: Readings) -> str:
    """How columns are made of bytes: the table is written anew when it changes."""
    parts = [settings[name] for name in ("key-format", "value-format", "fields")]
    read_by = [one for one in (readings.value, readings.key) if one is not None]
    parts += [[one.schema.schema_id, one.message, one.fields_ddl()] for one in read_by]
    return json.dumps(parts)


def _decoding_text(settings: JobSettings) -> str:
    if settings["value-format"] == "raw" and settings["key-format"] != REGISTRY:
        return "nothing: values are bytes"
    what = "fail the job" if settings["undecodable"] == FAIL else "keep their bytes and a reason"
    fields = f" ({settings['fields']})" if settings["fields"] else ""
    return f"{settings['value-format']}{fields} into the column fields; undecodable rows {what}"


JOB: Final = Job(
    name=NAME,
    summary="The latest value of each key of a compacted topic as a table of Delta Lake, "
    "brought up to date by each run.",
    options=OPTIONS,
    plan=plan,
    run=run,
    check=check,
    uses_tables=True,
)

if __name__ == "__main__":
    sys.exit(main_of(NAME))

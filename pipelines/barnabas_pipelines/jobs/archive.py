"""archive: topics to a table of Delta Lake, exactly once.

    python -m barnabas_pipelines.jobs.archive --bootstrap-servers localhost:9092 \\
        --topics orders --path /data/archive

Not here: how exactly once comes about (`barnabas_pipelines/archive/batches.py`).
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_client.env import Clock, SystemClock
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts, TopicFacts
from barnabas_pipelines.jobs.common_options import (
    FAIL_ON_DATA_LOSS,
    GROUP,
    MAX_OFFSETS_PER_TRIGGER,
    READ_COMMITTED,
    SESSION_OPTIONS,
    SOURCE_OPTIONS,
    STARTING_OFFSETS,
    TABLE_OPTIONS,
    TRIGGER,
    check_ranges_are_own,
    upkeep,
)
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import BatchProgress, Report
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.jobs.streaming import trigger_text
from barnabas_pipelines.tables.local import LocalTable, is_local, local_table
from barnabas_protocol.settings.kinds import BOOLEAN, NAMES
from barnabas_protocol.settings.sizes import size_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas_pipelines.archive.batches import Archiver, DoneBatch
    from barnabas_pipelines.archive.planning import Ends

_BATCH_RECORDS: Final = 5_000_000
"""A long backlog is archived in portions, so that a failure does not begin it anew."""

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"

_OPTIONS: Final = (
    JobOption(
        "topics", "What to archive: a topic, or several with commas.", kind=NAMES, is_required=True
    ),
    JobOption(
        "path",
        "The table: a folder on any file system that Spark and Delta Lake know.",
        is_required=True,
    ),
    JobOption(
        "verify",
        "At the end, compare the table with the topics, record by record, and fail if they differ.",
        kind=BOOLEAN,
        default=False,
    ),
)


def check(settings: JobSettings) -> None:
    """Refuse what would leave out records, and a topic whose name stands for null as a folder's.

    Raises: OptionsError.
    """
    check_ranges_are_own(settings)
    if _NO_VALUE in settings["topics"]:
        raise OptionsError(
            f"--topics: a table that is partitioned by topic cannot have {_NO_VALUE}, which Delta "
            "Lake takes for no topic at all"
        )


def plan(settings: JobSettings) -> Plan:
    """What is there to be archived, where it goes, and what is guaranteed."""
    facts = ClusterFacts.of(settings).topics(settings["topics"])
    path = settings["path"]
    table = local_table(path) if is_local(path) else None
    lines = [("reads", _topic_line(topic, table)) for topic in facts.values()]
    lines.append(("via", settings["via"]))
    if not is_local(path):
        lines.append(("table", f"{path} (not on this machine: not looked at)"))
    elif table is None:
        lines.append(("table", f"{path}: not there yet"))
    else:
        lines.append(
            (
                "table",
                f"{path}: {table.record_count:,} records in {len(table.files):,} files, version "
                f"{table.version:,}",
            )
        )
    lines += [
        (
            "writes",
            f"Delta Lake, partitioned by topic and day, {settings['compression']}, files of about "
            f"{size_text(settings['file-size-target'])}",
        ),
        ("when", trigger_text(settings)),
    ]
    if settings["group"]:
        lines.append(("progress", f"shown in consumer group {settings['group']}"))
    lines.append(
        (
            "guarantees",
            "every record of the topics exactly once by topic, partition and offset, whatever is "
            "killed when; keys, values, headers and timestamps as they are; readers see whole "
            "batches; of two jobs on one table, one is refused",
        )
    )
    return lines


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Archive what there is, or for ever."""
    from barnabas_pipelines.archive.batches import Archiver, range_options
    from barnabas_pipelines.archive.verify import verify
    from barnabas_pipelines.schema import ddl
    from barnabas_pipelines.sources import read_topic
    from barnabas_pipelines.tables.delta import DeltaTable

    def read(starts: Ends, ends: Ends) -> DataFrame:
        if not ends:
            return spark.createDataFrame([], ddl(include_headers=True))
        options = {
            "kafka.bootstrap.servers": settings["bootstrap-servers"],
            **READ_COMMITTED,
            **(settings["source-option"] or {}),
            **range_options(starts, ends),
            "includeHeaders": "true",
        }
        return read_topic(spark, options, via=settings["via"])

    table = DeltaTable(
        spark,
        settings["path"],
        file_bytes=settings["file-size-target"],
        compression=settings["compression"],
    )
    cluster = ClusterFacts.of(settings)
    archiver = Archiver(
        table,
        cluster,
        settings["topics"],
        read,
        report.line,
        first_offsets=settings["starting-offsets"],
        limit=settings["max-offsets-per-trigger"],
        is_loss_allowed=not settings["fail-on-data-loss"],
        reads_committed=_reads_committed(settings),
    )
    _run_batches(archiver, cluster, settings, report)
    for line in upkeep(table, settings):
        report.line(line)
    report.line(f"done: {report.record_count:,} records archived")
    if settings["verify"]:
        verify(table, cluster, settings["topics"], read, report.line)


def _run_batches(
    archiver: Archiver, cluster: ClusterFacts, settings: JobSettings, report: Report
) -> None:
    """All batches up to the topics' ends as they are now, or one at each trigger, for ever."""
    from barnabas_pipelines.archive.batches import by_topic

    seconds: int | None = settings["trigger"]
    goal = archiver.goal() if seconds is None else None
    clock = SystemClock()
    while True:
        began_ms = clock.monotonic_ms()
        done = archiver.batch(goal)
        if done is not None:
            report.batch(_progress(done, began_ms, clock))
            cluster.show_progress(settings["group"], by_topic(done.ends), report.line)
        if seconds is None and done is None:
            return
        if seconds is not None:
            left = seconds - (clock.monotonic_ms() - began_ms) / 1000
            # An event and no sleep in the JVM: a signal is handled at once.
            threading.Event().wait(max(0.0, left))


def _progress(done: DoneBatch, began_ms: int, clock: Clock) -> BatchProgress:
    duration_ms = max(1, clock.monotonic_ms() - began_ms)
    return BatchProgress(
        batch_id=done.number,
        record_count=done.record_count,
        records_per_second=done.record_count * 1000 / duration_ms,
        duration_ms=duration_ms,
        offsets_behind=done.left_count,
    )


def _reads_committed(settings: JobSettings) -> bool:
    given = {name.lower(): text for name, text in (settings["source-option"] or {}).items()}
    return (READ_COMMITTED | given)["kafka.isolation.level"] == "read_committed"


def _topic_line(topic: TopicFacts, table: LocalTable | None) -> str:
    reach = table.mark.topic(topic.name) if table is not None and table.mark is not None else None
    archived = reach.ends if reach is not None else {}
    starts = {
        partition: min(max(archived.get(partition, 0), topic.starts[partition]), end)
        for partition, end in topic.ends.items()
    }
    count = sum(end - starts[partition] for partition, end in topic.ends.items())
    shown = ", ".join(
        f"{partition}: {starts[partition]:,} to {end:,}" for partition, end in topic.ends.items()
    )
    return f"{topic.name}, at most {count:,} new records; offsets by partition {shown}"


JOB: Final = Job(
    name="archive",
    summary="Writes topics to a table of Delta Lake, every record exactly once: keys, values, "
    "headers, timestamps, offsets.",
    options=(
        *_OPTIONS[:2],
        *SOURCE_OPTIONS,
        *TABLE_OPTIONS,
        *_OPTIONS[2:],
        replace(
            STARTING_OFFSETS,
            why="Where a topic begins that the table does not know yet: earliest, latest or "
            "JSON; otherwise each run goes on where the table ends.",
        ),
        TRIGGER,
        GROUP,
        replace(MAX_OFFSETS_PER_TRIGGER, default=_BATCH_RECORDS),
        FAIL_ON_DATA_LOSS,
        *SESSION_OPTIONS,
    ),
    plan=plan,
    run=run,
    check=check,
    uses_tables=True,
)

if __name__ == "__main__":
    sys.exit(main_of("archive"))

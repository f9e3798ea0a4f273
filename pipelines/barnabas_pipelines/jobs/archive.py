"""archive: topics to partitioned Parquet, exactly once.

    python -m barnabas_pipelines.jobs.archive --bootstrap-servers localhost:9092 \\
        --topics orders --path /data/archive

Not here: how exactly once comes about (`barnabas_pipelines/archive/directory.py`).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas_pipelines.archive.batch_writer import BatchWriter
from barnabas_pipelines.archive.continuation import continuation
from barnabas_pipelines.archive.directory import CHECKPOINT as CHECKPOINT_PATH
from barnabas_pipelines.archive.directory import ArchiveDirectory
from barnabas_pipelines.archive.file_sizes import FileSizes
from barnabas_pipelines.archive.manifest import Manifest, Totals
from barnabas_pipelines.archive.reading import (
    local_archive,
    manifests,
    path_complaint,
    read_batches,
)
from barnabas_pipelines.errors import DataLossError, OptionsError, PipelineError
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts, TopicFacts
from barnabas_pipelines.jobs.common_options import (
    FAIL_ON_DATA_LOSS,
    GROUP,
    MAX_OFFSETS_PER_TRIGGER,
    SESSION_OPTIONS,
    SOURCE_OPTIONS,
    STARTING_OFFSETS,
    TRIGGER,
)
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.jobs.streaming import read_source, run_query, trigger_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EARLIEST: Final = -2
_LATEST: Final = -1
_BATCH_RECORDS: Final = 5_000_000
"""A long backlog is archived in portions, so that a failure does not begin it anew."""
_SETTLING_ATTEMPTS: Final = 20
_SETTLING_SECONDS: Final = 0.5

_OPTIONS: Final = (
    JobOption(
        name="topics",
        kind="names",
        is_required=True,
        meaning="What to archive: a topic, or several with commas.",
    ),
    JobOption(
        name="path",
        is_required=True,
        check=path_complaint,
        meaning="The archive: a folder on any file system that Spark knows, of this job alone.",
    ),
    JobOption(
        name="checkpoint",
        meaning="A folder for what Spark remembers between runs; by default inside the archive, in "
        f"{CHECKPOINT_PATH}.",
    ),
    JobOption(
        name="file-size-target",
        kind="bytes",
        default="128 MiB",
        minimum=1,
        meaning="What a file should have: a batch whose files are much smaller is put together.",
    ),
    JobOption(
        name="file-size-maximum",
        kind="bytes",
        default="512 MiB",
        minimum=1,
        meaning="What no file may exceed, unless a single record does.",
    ),
    JobOption(
        name="compression",
        default="snappy",
        choices=("none", "snappy", "gzip", "zstd", "lz4_raw"),
        meaning="How the columns are compressed.",
    ),
    JobOption(
        name="verify",
        kind="bool",
        default=False,
        meaning="At the end, read the archive back and fail if any record is there twice; gaps are "
        "told.",
    ),
)


def check(settings: JobSettings) -> None:
    """Refuse sizes that contradict each other. Raises: OptionsError."""
    if settings["file-size-target"] > settings["file-size-maximum"]:
        raise OptionsError("--file-size-target is more than --file-size-maximum")


def plan(settings: JobSettings) -> Plan:
    """What is there to be archived, where it goes, and what is guaranteed."""
    facts = ClusterFacts.of(settings).topics(settings["topics"])
    path = settings["path"]
    directory = local_archive(path)
    last = directory.last() if directory is not None else None
    lines = [("reads", _topic_line(topic, last)) for topic in facts.values()]
    lines.append(("via", settings["via"]))
    if directory is None:
        lines.append(("archive", f"{path} (not on this machine: not looked at)"))
    else:
        held = last.totals if last is not None else Totals()
        lines.append(
            ("archive", f"{path}: {held.record_count:,} records in {held.batch_count:,} batches")
        )
    lines += [
        (
            "writes",
            f"batch=N/dt=DAY/*.parquet, {settings['compression']}, files of about "
            f"{_size_text(settings['file-size-target'])}, at most "
            f"{_size_text(settings['file-size-maximum'])}",
        ),
        ("when", trigger_text(settings)),
        ("checkpoint", settings["checkpoint"] or f"{path}/{CHECKPOINT_PATH}"),
    ]
    if settings["group"]:
        lines.append(("progress", f"shown in consumer group {settings['group']}"))
    lines.append(
        (
            "guarantees",
            "every record of the topics exactly once by topic, partition and offset, whatever is "
            "killed when; keys, values, headers and timestamps as they are; readers see whole "
            "batches",
        )
    )
    return Plan.of(*lines)


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Archive what there is, or for ever."""
    from barnabas_pipelines.archive.staging import ArchiveForm, SparkStager
    from barnabas_pipelines.storage.hadoop_files import open_store

    # Spark's default is a type that only old readers of Parquet want.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    directory = ArchiveDirectory(open_store(spark, settings["path"]))
    last = directory.recover()
    checkpoint = settings["checkpoint"] or directory.store.url(CHECKPOINT_PATH)
    cluster = ClusterFacts.of(settings)
    topics = settings["topics"]
    overrides = _going_on(settings, last, cluster, report) if last else {}
    records = read_source(settings, spark, topics, include_headers=True, overrides=overrides)
    sizes = FileSizes(
        target_bytes=settings["file-size-target"], maximum_bytes=settings["file-size-maximum"]
    )
    write = BatchWriter(
        directory,
        last,
        SparkStager(directory, ArchiveForm(sizes=sizes, compression=settings["compression"])),
        topic_ids=lambda: cluster.topic_ids(topics),
        checkpoint=open_store(spark, checkpoint),
        say=report.line,
        is_loss_allowed=not settings["fail-on-data-loss"],
    )
    query = records.writeStream.foreachBatch(write)
    run_query(query, settings, spark, report, name="archive", checkpoint=checkpoint)
    newest = directory.last()
    held = newest.totals if newest is not None else Totals()
    report.line(
        f"done: {report.record_count:,} records read; the archive has {held.record_count:,} in "
        f"{held.batch_count:,} batches and {held.file_count:,} files"
    )
    if settings["verify"]:
        _verify(spark, directory, report)


def _going_on(
    settings: JobSettings, last: Manifest, cluster: ClusterFacts, report: Report
) -> dict[str, str]:
    """Start where the archive ends, should there be no checkpoint (any more).

    Raises: DataLossError, PipelineError.
    """
    otherwise = _LATEST if settings["starting-offsets"] == "latest" else _EARLIEST
    for _ in range(_SETTLING_ATTEMPTS):
        topics = cluster.topics(settings["topics"])
        found = continuation(last.ends, topics.values(), otherwise)
        if not found.contradictions:
            break
        # A leader that was just elected may not know yet how far consumers could read.
        time.sleep(_SETTLING_SECONDS)
    if found.contradictions:
        raise PipelineError(
            f"the archive has more than the topic, which was made anew or has lost records: "
            f"{'; '.join(found.contradictions)}; archive it into another folder, with another "
            "checkpoint"
        )
    if found.lost and settings["fail-on-data-loss"]:
        raise DataLossError(
            f"records are gone that were not archived: {'; '.join(found.lost)}; go on without "
            "them with --no-fail-on-data-loss"
        )
    for text in found.lost:
        report.line(f"goes on without: {text}")
    return {"startingOffsets": json.dumps(found.starts)}


def _verify(spark: SparkSession, directory: ArchiveDirectory, report: Report) -> None:
    """Count offsets in the files themselves. Raises: PipelineError if one is there twice."""
    from barnabas_pipelines.transforms.archive_rows import archive_census

    rows = read_batches(spark, directory, manifests(directory))
    for found in archive_census(rows).orderBy("topic", "partition").collect():
        name = f"{found.topic}-{found.partition}"
        doubled = found.record_count - found.offset_count
        if doubled:
            raise PipelineError(f"{name}: {doubled:,} records are in the archive twice")
        gaps = found.last_offset - found.first_offset + 1 - found.offset_count
        told = f", {gaps:,} of these offsets have no record" if gaps else ""
        report.line(
            f"{name}: offsets {found.first_offset:,} to {found.last_offset:,}, "
            f"{found.record_count:,} records, none twice{told}"
        )


def _topic_line(topic: TopicFacts, last: Manifest | None) -> str:
    archived = last.ends.get(topic.name, {}) if last is not None else {}
    starts = {
        partition: min(max(archived.get(partition, 0), topic.starts[partition]), end)
        for partition, end in topic.ends.items()
    }
    count = sum(end - starts[partition] for partition, end in topic.ends.items())
    shown = ", ".join(
        f"{partition}: {starts[partition]:,} to {end:,}" for partition, end in topic.ends.items()
    )
    return f"{topic.name}, at most {count:,} new records; offsets by partition {shown}"


def _size_text(size: int) -> str:
    for unit, length in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= length:
            return (
                f"{size / length:g} {unit}" if size % length == 0 else f"{size / length:.1f} {unit}"
            )
    return f"{size} B"


JOB: Final = Job(
    name="archive",
    summary="Writes topics to partitioned Parquet, every record exactly once: keys, values, "
    "headers, timestamps, offsets.",
    options=(
        *_OPTIONS[:2],
        *SOURCE_OPTIONS,
        *_OPTIONS[2:],
        STARTING_OFFSETS,
        TRIGGER,
        GROUP,
        replace(MAX_OFFSETS_PER_TRIGGER, default=_BATCH_RECORDS),
        FAIL_ON_DATA_LOSS,
        *SESSION_OPTIONS,
    ),
    plan=plan,
    run=run,
    check=check,
)

if __name__ == "__main__":
    sys.exit(main_of("archive"))

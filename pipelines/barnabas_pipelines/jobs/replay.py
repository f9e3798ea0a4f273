"""replay: an archive, or a part of it, back to a topic: the same bytes, in order, at a chosen rate.

    python -m barnabas_pipelines.jobs.replay --path /data/archive --target orders-again \\
        --bootstrap-servers localhost:9092 --checkpoint /data/replays/1 --from 2026-11-21

What is guaranteed: keys, values, headers and timestamps are the same to the byte; the records of a
partition come in the order of their offsets; each chosen record is in the target once for those who
read committed records only, whatever was killed, cut off or repeated, as long as a replay goes on
with its checkpoint. Offsets are new ones. Records without a timestamp get the time of sending.

Not here: what a task does (`barnabas_pipelines/replay/task.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from barnabas_client.env import Environment
from barnabas_pipelines.errors import OptionsError, PipelineError
from barnabas_pipelines.jobs.cluster_facts import TopicFacts
from barnabas_pipelines.jobs.common_options import (
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    SESSION_OPTIONS,
    SINK_OPTION,
    producer_settings,
)
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.replay.selection import (
    Selection,
    moment_text,
    parse_moment_ms,
    parse_offsets,
    parse_partitions,
)
from barnabas_pipelines.replay.state import FILE_NAME, ReplayState, parse_state
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.storage.file_store import LocalFiles
from barnabas_pipelines.tables.local import is_local, local_table
from barnabas_protocol.settings.kinds import NUMBER, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORIGINAL: Final = "original"
BY_KEY: Final = "key"
_UNSAFE_SETTINGS: Final = ("kafka.enable.idempotence", "kafka.acks", "kafka.transactional.id")


_OPTIONS: Final = (
    JobOption("path", "The archive, as the job archive has written it.", is_required=True),
    JobOption("target", "The topic to write to, which exists.", is_required=True),
    JobOption(
        "checkpoint",
        "A folder of this replay alone, so that it can go on after a failure.",
        is_required=True,
    ),
    JobOption("topic", "The topic in the archive; needed where it has several."),
    JobOption(
        "from",
        "The first timestamp to replay, such as 2026-11-22 or 2026-11-22T10:30:00Z.",
        kind=Kind("text", "", parse_moment_ms),
    ),
    JobOption("to", "The timestamp to stop before.", kind=Kind("text", "", parse_moment_ms)),
    JobOption(
        "partitions",
        "Only these partitions of the archived topic, such as 0,2,5-7.",
        kind=Kind("text", "", parse_partitions),
    ),
    JobOption(
        "offsets",
        "Only these archived offsets, such as 0:100-199,1:50- (partition, first and last).",
        kind=Kind("text", "", parse_offsets),
    ),
    JobOption(
        "partitioning",
        "original: every record into the partition that it came from. key: where Kafka's "
        "hash of the key says, for a target with another number of partitions.",
        choices=(ORIGINAL, BY_KEY),
        default=ORIGINAL,
    ),
    JobOption(
        "rate",
        "The most records a second, all tasks together; by default as fast as it goes.",
        kind=NUMBER,
        minimum=0.001,
    ),
)


def selection_of(settings: JobSettings, topic: str) -> Selection:
    """What the settings choose."""
    return Selection(
        topic=topic,
        from_ms=settings["from"],
        to_ms=settings["to"],
        partitions=settings["partitions"],
        offsets=settings["offsets"] or {},
    )


def check(settings: JobSettings) -> None:
    """Refuse what could double records or chooses none. Raises: OptionsError."""
    chosen = selection_of(settings, "")
    if chosen.from_ms is not None and chosen.to_ms is not None and chosen.from_ms >= chosen.to_ms:
        raise OptionsError("--from is not before --to: nothing is chosen")
    for name in settings["sink-option"] or {}:
        if name.lower() in _UNSAFE_SETTINGS:
            raise OptionsError(f"--sink-option {name} is decided here: records are written once")
    target_of(settings)


def target_of(settings: JobSettings) -> Target:
    """The target, with the settings of its producer. Raises: OptionsError."""
    topic = settings["target"]
    return Target(topic=topic, producer_settings=producer_settings(settings, topic))


def plan(settings: JobSettings) -> Plan:
    """What is chosen in the archive, where it goes, and what is guaranteed."""
    target = target_of(settings)
    facts = target.cluster.topics([target.topic])[target.topic]
    _check_timestamps_are_kept(target)
    rate = settings["rate"]
    where = (
        "the partition that each came from"
        if settings["partitioning"] == ORIGINAL
        else "the partition that the hash of its key says"
    )
    lines = [*_archive_lines(settings, facts, target)]
    lines += [
        (
            "writes",
            f"{target.topic}, {len(facts.ends)} partitions with {facts.record_count_max:,} records "
            f"now; each record into {where}",
        ),
        ("rate", f"at most {rate:,g} records/s" if rate else "as fast as it goes"),
        ("checkpoint", settings["checkpoint"]),
        (
            "guarantees",
            "the same keys, values, headers and timestamps, in the order of each partition; each "
            "chosen record once for readers of committed records, also after a kill and another "
            "run with this checkpoint",
        ),
    ]
    return lines


def _archive_lines(
    settings: JobSettings, facts: TopicFacts, target: Target
) -> list[tuple[str, str]]:
    path = settings["path"]
    if not is_local(path):
        return [("archive", f"{path} (not on this machine: not looked at)")]
    table = local_table(path)
    selection = selection_of(settings, topic_of(settings, table.topics if table else []))
    files = [one for one in (table.files if table else ()) if selection.may_have(one)]
    count = sum(one.record_count for one in files)
    lines = [
        ("reads", selection.text()),
        ("archive", f"{path}: {len(files):,} files with {count:,} records"),
    ]
    state = _local_state(settings)
    if state is not None:
        sent = state.record_count
        if not state.is_done:
            sent = sum(target.sent(state.replay_id).values())
        lines.append(("goes on", f"{sent:,} of {state.record_count:,} records are there already"))
    retention = target.cluster.topic_setting(target.topic, "retention.ms")
    oldest_ms = min((one.first_ms for one in files if one.first_ms is not None), default=None)
    limit_ms = int(retention) if retention is not None else -1
    if oldest_ms is not None and 0 <= limit_ms < Environment().clock.wall_ms() - oldest_ms:
        lines.append(
            (
                "beware",
                f"{target.topic} keeps records for {limit_ms / 3_600_000:,g} h, and there are some "
                f"from {moment_text(oldest_ms)}: it will soon delete them; set retention.ms=-1",
            )
        )
    return lines


def _local_state(settings: JobSettings) -> ReplayState | None:
    """The state as far as a plan can see it: only on this machine."""
    folder = settings["checkpoint"]
    if not is_local(folder):
        return None
    text = LocalFiles(Path(urlsplit(folder).path)).read(FILE_NAME)
    return parse_state(text) if text is not None else None


def topic_of(settings: JobSettings, topics: Sequence[str]) -> str:
    """Which of the archive's topics to replay.

    Raises: OptionsError if that is not clear; PipelineError if there is none.
    """
    wanted: str | None = settings["topic"]
    if not topics:
        raise PipelineError(f"there is no archive in {settings['path']}")
    if wanted is not None and wanted not in topics:
        raise OptionsError(f"--topic {wanted}: the archive has {', '.join(topics)}")
    if wanted is None and len(topics) > 1:
        raise OptionsError(f"--topic is missing: the archive has {', '.join(topics)}")
    return wanted or topics[0]


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Replay what is chosen, or what is left of it."""
    from barnabas_pipelines.archive.batches import known
    from barnabas_pipelines.replay.runner import Replay, ReplayRequest
    from barnabas_pipelines.storage.hadoop_files import open_store
    from barnabas_pipelines.tables.delta import DeltaTable

    # Times are compared and sent as they are, whatever the session was started with.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = DeltaTable(spark, settings["path"])
    mark = known(table).mark
    topics = [one.name for one in mark.topics] if mark is not None else []
    request = ReplayRequest(
        archive=settings["path"],
        checkpoint=settings["checkpoint"],
        target=target_of(settings),
        selection=selection_of(settings, topic_of(settings, topics)),
        is_by_key=settings["partitioning"] == BY_KEY,
        records_per_second=settings["rate"],
    )
    checkpoint = open_store(spark, settings["checkpoint"])
    Replay(request, spark, report, table, checkpoint).run()


def _check_timestamps_are_kept(target: Target) -> None:
    kind = target.cluster.topic_setting(target.topic, "message.timestamp.type")
    if kind == "LogAppendTime":
        raise OptionsError(
            f"{target.topic} has message.timestamp.type=LogAppendTime, so the brokers would "
            "replace all timestamps: set it to CreateTime, or choose another target"
        )


JOB: Final = Job(
    name="replay",
    summary="Writes an archive, or a part of it, back to a topic: the same keys, values, headers "
    "and timestamps, in order, at a chosen rate.",
    options=(
        *_OPTIONS[:2],
        BOOTSTRAP_SERVERS,
        CLIENT_PROPERTIES,
        *_OPTIONS[2:],
        SINK_OPTION,
        *SESSION_OPTIONS,
    ),
    plan=plan,
    run=run,
    check=check,
    uses_tables=True,
)

if __name__ == "__main__":
    sys.exit(main_of("replay"))

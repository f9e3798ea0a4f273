"""lag-report: groups' lag and topics' traffic as one HTML page with charts, and on the terminal.

    python -m barnabas_pipelines.jobs.lag_report --bootstrap-servers localhost:9092 \\
        --since 6h --output lag.html

Lag is read from the brokers; rates, sizes, gaps and skew are read from the records of the time
chosen, by their own timestamps. Nothing is written but the files named; no group is joined.

Not here: what is found (`lag/findings.py`), how it looks (`lag/page.py`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from barnabas_client.env import Environment
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs.common_options import (
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    SESSION_OPTIONS,
    SOURCE_OPTION,
    VIA,
)
from barnabas_pipelines.jobs.job import Job, Plan, main_of
from barnabas_pipelines.jobs.progress_bar import Report, print_summary
from barnabas_pipelines.jobs.quality import split_path
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.lag.findings import (
    GroupLag,
    LagFindings,
    TopicTraffic,
    bucket_length_ms,
    traffic_of,
)
from barnabas_pipelines.lag.group_reading import GroupReading
from barnabas_pipelines.lag.page import page
from barnabas_pipelines.lag.tables import as_json, group_table, topic_table
from barnabas_protocol.settings.durations import duration_text
from barnabas_protocol.settings.kinds import BOOLEAN, DURATION, NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "lag_report"
BUCKETS_MAX: Final = 2_000

OPTIONS: Final = (
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    VIA,
    SOURCE_OPTION,
    JobOption("topics", "Topics to look at; by default all.", kind=NAMES),
    JobOption(
        "groups", "Groups to look at; by default all that have committed offsets.", kind=NAMES
    ),
    JobOption(
        "since", "How far back records are read, by their timestamps.", kind=DURATION, default="24h"
    ),
    JobOption(
        "bucket",
        "The stretch of time that a column of a chart stands for; by default a sixtieth.",
        kind=DURATION,
    ),
    JobOption(
        "records",
        "Read records; without them there are lags only, and no topics.",
        kind=BOOLEAN,
        default=True,
    ),
    JobOption("output", "The page; anywhere that Spark can write.", default="lag-report.html"),
    JobOption("json", "A file for the same findings as JSON."),
    *SESSION_OPTIONS,
)


def check(settings: JobSettings) -> None:
    """Refuse settings that contradict each other. Raises: OptionsError."""
    since_ms, bucket_ms = settings["since"], settings["bucket"]
    if since_ms <= 0:
        raise OptionsError("--since must be longer than nothing")
    if bucket_ms is not None and (bucket_ms <= 0 or since_ms / bucket_ms > BUCKETS_MAX):
        raise OptionsError(
            f"--bucket {duration_text(bucket_ms)}: {duration_text(since_ms)} would have more than "
            f"{BUCKETS_MAX:,} columns"
        )


def plan(settings: JobSettings) -> Plan:
    """What is going to be read. Raises: TopicGoneError, UnreachableError."""
    reading = GroupReading.of(settings)
    topics = reading.topics(_topics(settings, reading))
    partitions = sum(len(one.ends) for one in topics.values())
    lines = [
        ("lag", "offsets of " + (", ".join(settings["groups"] or ()) or "all groups")),
    ]
    if settings["records"]:
        most = sum(one.record_count_max for one in topics.values())
        lines += [
            (
                "reads",
                f"{len(topics)} topics, {partitions} partitions, at most {most:,} records, by "
                f"{settings['via']}",
            ),
            ("from", f"{duration_text(settings['since'])} ago, by the records' timestamps"),
        ]
    lines += [("writes", settings["output"])]
    lines += [("writes", settings["json"])] if settings["json"] else []
    return lines


def run(settings: JobSettings, spark: SparkSession, report: Report) -> None:
    """Make the report. Raises: TopicGoneError, UnreachableError."""
    from barnabas_pipelines.storage.hadoop_files import open_store

    reading = GroupReading.of(settings)
    now_ms = Environment().clock.wall_ms()
    groups = reading.group_lags(settings["groups"] or (), settings["topics"] or (), now_ms)
    bucket_ms = settings["bucket"] or bucket_length_ms(settings["since"])
    from_ms = now_ms - settings["since"]
    topics: tuple[TopicTraffic, ...] = ()
    if settings["records"]:
        topics = _traffic(settings, spark, reading, from_ms, bucket_ms)
    findings = LagFindings(
        bootstrap_servers=settings["bootstrap-servers"],
        made_at_ms=now_ms,
        from_ms=from_ms,
        until_ms=now_ms,
        bucket_ms=bucket_ms,
        groups=tuple(sorted(groups, key=_furthest_behind)),
        topics=topics,
        has_traffic=settings["records"],
    )
    for path, text in ((settings["output"], page), (settings["json"], as_json)):
        if path:
            folder, name = split_path(path)
            open_store(spark, folder).write(name, text(findings))
    print_summary(group_table(findings), *([topic_table(findings)] if topics else []))
    report.line(f"wrote {settings['output']}")


def _furthest_behind(group: GroupLag) -> tuple[int, int, str]:
    return (-(group.behind_ms or 0), -group.lag, group.group_id)


def _topics(settings: JobSettings, reading: GroupReading) -> tuple[str, ...]:
    return tuple(settings["topics"] or reading.topic_names())


def _traffic(
    settings: JobSettings,
    spark: SparkSession,
    reading: GroupReading,
    from_ms: int,
    bucket_ms: int,
) -> tuple[TopicTraffic, ...]:
    from barnabas_pipelines.lag.traffic_reading import bucket_rows, widest_holes

    names = _topics(settings, reading)
    partitions = {name: facts.ends.keys() for name, facts in reading.topics(names).items()}
    if not names:
        return ()
    records = _records(settings, spark, names, from_ms)
    rows = bucket_rows(records, bucket_ms)
    found = [
        traffic_of(name, partitions[name], [row for row in rows if row.topic == name])
        for name in names
    ]
    incomplete = [one.topic for one in found if one.missing_count]
    if incomplete:
        holes = widest_holes(records, incomplete)
        found = [
            traffic_of(
                name,
                partitions[name],
                [row for row in rows if row.topic == name],
                holes.get(name, ()),
            )
            for name in names
        ]
    return tuple(sorted(found, key=lambda one: (-one.record_count, one.topic)))


def _records(
    settings: JobSettings, spark: SparkSession, names: tuple[str, ...], from_ms: int
) -> DataFrame:
    from barnabas_pipelines.sources import read_topic

    options = {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        "subscribe": ",".join(names),
        "startingTimestamp": str(from_ms),
        # A partition in which nothing came since then is at its end, and no mistake.
        "startingOffsetsByTimestampStrategy": "latest",
        "includeHeaders": "true",
        **(settings["source-option"] or {}),
    }
    return read_topic(spark, options, via=settings["via"])


JOB: Final = Job(
    name=NAME,
    summary="Shows how far consumer groups are behind, in records and time, and what topics carry: "
    "rates, sizes, gaps and skew. One HTML page with charts, and a summary on the terminal.",
    options=OPTIONS,
    plan=plan,
    run=run,
    check=check,
)


if __name__ == "__main__":
    sys.exit(main_of("lag_report"))

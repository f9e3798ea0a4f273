"""The options that several jobs share, as groups of rows; a job lists those that it understands.

    options=(*SOURCE_OPTIONS, *STREAM_OPTIONS, JobOption(...), *SESSION_OPTIONS)

Not here: what becomes of them (`streaming.py`, `job.py`).
"""

from __future__ import annotations

import re
from typing import Any, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import client_properties
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.kafka_settings import PRODUCER_DEFAULTS
from barnabas_pipelines.option_table import Use
from barnabas_pipelines.options import parse_options
from barnabas_pipelines.tables.table import Table
from barnabas_protocol.settings.kinds import BOOLEAN, DURATION, INTEGER, PAIRS, SIZE, Kind

AVAILABLE_NOW: Final = "available-now"
TRIGGER_SECONDS_MIN: Final = 1
"""An idle query that polls as fast as it can costs the brokers 300 requests a second."""

_INTERVAL: Final = re.compile(r"(\d+)\s*(s|seconds?|m|min|minutes?|h|hours?)", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


def trigger_seconds(text: str) -> int | None:
    """The seconds between two batches; None for `available-now`. Raises: ValueError."""
    if text.strip().lower() == AVAILABLE_NOW:
        return None
    match = _INTERVAL.fullmatch(text.strip())
    seconds = int(match[1]) * _SECONDS[match[2][0].lower()] if match else 0
    if seconds < TRIGGER_SECONDS_MIN:
        raise ValueError('it must be available-now or an interval such as "10 seconds" or 5m')
    return seconds


BOOTSTRAP_SERVERS: Final = JobOption(
    "bootstrap-servers",
    "Brokers to ask first, as host:port with commas; may be in --client-properties.",
    is_required=True,
)
CLIENT_PROPERTIES: Final = JobOption(
    client_properties.CLIENT_PROPERTIES,
    "A properties file of Kafka's clients, such as a mounted Secret has: how to encrypt "
    "and to log in. Each setting is one of source and sink, as kafka.NAME; what --source-option "
    "and --sink-option say wins. Passwords so appear on no command line, page or log.",
)
VIA: Final = JobOption(
    "via",
    "Spark's Kafka connector (four jars), or the Python source and sink (none).",
    choices=("connector", "python"),
    default="connector",
)
SOURCE_OPTION: Final = JobOption(
    "source-option",
    "Any further option of the source, such as kafka.fetch.max.bytes=8388608; "
    "docs/reference/pipelines.md has them all.",
    kind=PAIRS,
)
SINK_OPTION: Final = JobOption(
    "sink-option",
    "Any further option of the sink, such as kafka.compression.type=zstd.",
    kind=PAIRS,
)
MASTER: Final = JobOption(
    "master",
    "Where Spark runs, such as local[4]; by default what spark-submit says, else all cores "
    "of this machine.",
)
CONF: Final = JobOption("conf", "Settings of Spark, such as spark.driver.memory=4g.", kind=PAIRS)
STARTING_OFFSETS: Final = JobOption(
    "starting-offsets",
    "Where the first run starts: earliest, latest or JSON; later runs go on from the checkpoint.",
    default="earliest",
)
VALUE_FORMAT: Final = JobOption(
    "value-format",
    "What values are: JSON objects with fields; or what their schema in --schema-registry "
    "says (Avro, Protobuf, JSON Schema); or text, a number or bytes, which are one field called "
    "value.",
    choices=("json", "registry", "text", "number", "raw"),
    default="json",
)
TRIGGER: Final = JobOption(
    "trigger",
    "available-now reads what is there and ends; an interval such as 5m goes on for ever.",
    default=AVAILABLE_NOW,
    kind=Kind("text", "", trigger_seconds),
)
CHECKPOINT: Final = JobOption(
    "checkpoint",
    "A folder for what Spark remembers between runs; any file system that Spark knows.",
    is_required=True,
)
GROUP: Final = JobOption(
    "group", "A consumer group to show the progress in, so that lag is seen; nobody may join it."
)
MAX_OFFSETS_PER_TRIGGER: Final = JobOption(
    "max-offsets-per-trigger",
    "The most records of a batch, over all partitions.",
    kind=INTEGER,
    minimum=1,
)
FAIL_ON_DATA_LOSS: Final = JobOption(
    "fail-on-data-loss",
    "Fail when records that were to be read are gone; otherwise go on with what there is.",
    kind=BOOLEAN,
    default=True,
)

SOURCE_OPTIONS: Final = (BOOTSTRAP_SERVERS, CLIENT_PROPERTIES, VIA, SOURCE_OPTION)
STREAM_OPTIONS: Final = (
    STARTING_OFFSETS,
    TRIGGER,
    CHECKPOINT,
    GROUP,
    MAX_OFFSETS_PER_TRIGGER,
    FAIL_ON_DATA_LOSS,
)
SESSION_OPTIONS: Final = (MASTER, CONF)


_HOUR_MS: Final = 3_600_000

FILE_SIZE_TARGET: Final = JobOption(
    "file-size-target",
    "What a file should have: what is written at once is put together into such files, and "
    "--optimize does so with what was written before.",
    kind=SIZE,
    default="128 MiB",
    minimum=1,
)
COMPRESSION: Final = JobOption(
    "compression",
    "How the columns are compressed.",
    default="snappy",
    choices=("none", "snappy", "gzip", "zstd", "lz4_raw"),
)
OPTIMIZE: Final = JobOption(
    "optimize", "At the end, put small files of the table together.", kind=BOOLEAN, default=False
)
VACUUM: Final = JobOption(
    "vacuum",
    "At the end, delete files that only versions older than this need, such as 168h; not "
    "less than a week, unless Delta's own check is switched off.",
    kind=DURATION,
)
TABLE_OPTIONS: Final = (FILE_SIZE_TARGET, COMPRESSION, OPTIMIZE, VACUUM)


READ_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
"""What jobs read unless an option says otherwise: records of aborted transactions never were."""


_RANGE_OPTIONS: Final = frozenset(
    {
        *("assign", "subscribe", "subscribepattern"),
        *("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
        *("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    }
)


def check_ranges_are_own(settings: JobSettings) -> None:
    """Refuse options of the source by which a job would read else than it plans.

    Timestamps go before offsets: what is older than one was told to be read. Raises: OptionsError.
    """
    for name in settings["source-option"] or {}:
        if name.lower() in _RANGE_OPTIONS:
            raise OptionsError(
                f"--source-option {name} is decided here: a run reads on from where its table ends"
            )


def sink_options(settings: JobSettings, topic: str) -> dict[str, str]:
    """The options of a sink for a topic, spelled as both ways spell them."""
    return {
        "kafka.bootstrap.servers": settings["bootstrap-servers"],
        "topic": topic,
        **(settings["sink-option"] or {}),
    }


def producer_settings(settings: JobSettings, topic: str) -> dict[str, Any]:
    """The settings of a producer of the client for a topic. Raises: OptionsError."""
    found = parse_options(sink_options(settings, topic), Use.BATCH_WRITE).client_settings
    return {**PRODUCER_DEFAULTS, **found}


def upkeep(table: Table, settings: JobSettings) -> list[str]:
    """Do the upkeep that the options name; what was done, in lines."""
    lines = []
    if settings["optimize"]:
        files = table.optimize()
        lines.append(f"optimized: {files['added']:,} files in place of {files['removed']:,}")
    if settings["vacuum"] is not None:
        hours = settings["vacuum"] / _HOUR_MS
        table.vacuum(hours)
        lines.append(f"vacuumed: files that only versions older than {hours:g} h need are deleted")
    return lines

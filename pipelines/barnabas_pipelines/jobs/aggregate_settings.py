"""The options of `aggregate`, and the settings that its checkpoint was made with. Pure.

State under a checkpoint fits the query that made it: other windows, groups, measures or another
number of state partitions cannot go on with it. Spark says so late and in its own words, or keeps
silent and uses the old number; so a file in the checkpoint remembers the settings, and differences
are found before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas_pipelines.errors import OptionsError, PipelineError
from barnabas_pipelines.jobs.common_options import (
    SESSION_OPTIONS,
    SINK_OPTION,
    SOURCE_OPTIONS,
    STREAM_OPTIONS,
    VALUE_FORMAT,
    producer_settings,
)
from barnabas_pipelines.jobs.registry_options import REGISTRY, VALUE_OPTIONS, check_registry
from barnabas_pipelines.jobs.settings import JobOption, JobSettings
from barnabas_pipelines.transforms.measures import (
    GroupField,
    Measure,
    WindowSpec,
    check_names,
    inferred_schema,
    needed_fields,
    parse_group_fields,
    parse_measures,
)
from barnabas_protocol.settings.kinds import BOOLEAN, DURATION, INTEGER, NAMES

OF_RECORD: Final = "record"
FAIL: Final = "fail"
SKIP: Final = "count-and-skip"
DEAD_LETTER: Final = "dead-letter"
SETTINGS_FILE: Final = "aggregate.json"
_FILE_VERSION: Final = 1

OPTIONS: Final = (
    JobOption("topic", "The topic to read.", is_required=True),
    JobOption(
        "target",
        "The topic to write to; a row is keyed by its window and group, so that the "
        "newest one counts where the topic is compacted.",
        is_required=True,
    ),
    *SOURCE_OPTIONS,
    SINK_OPTION,
    VALUE_FORMAT,
    *VALUE_OPTIONS,
    JobOption(
        "fields",
        "The fields of JSON values, as Spark writes schemas: user STRING, amount "
        "DECIMAL(12,2), at TIMESTAMP, order STRUCT<size: INT>. Without it groups are text, "
        "measured fields DOUBLE.",
    ),
    JobOption(
        "event-time",
        "When a record happened: record for its timestamp, or the path of a field.",
        default=OF_RECORD,
    ),
    JobOption(
        "event-time-unit",
        "What that field holds: ISO 8601 text, or seconds, milliseconds or microseconds "
        "since 1970.",
        choices=("iso", "s", "ms", "us"),
        default="iso",
    ),
    JobOption(
        "event-time-ahead-max",
        "A field that is further ahead of its record's timestamp makes the record "
        "undecodable: it would move the watermark, and all others would be late.",
        kind=DURATION,
        default="1h",
    ),
    JobOption("window", "The length of a window.", kind=DURATION, default="1m"),
    JobOption(
        "slide", "A window begins this often; without it, where the one before ends.", kind=DURATION
    ),
    JobOption(
        "watermark",
        "How much older than the newest record one may be; what is older is dropped, and "
        "counted in the progress.",
        kind=DURATION,
        default="10m",
    ),
    JobOption(
        "group-by",
        "Fields to group by, also record.key, record.topic, record.partition; a name "
        "of your own follows 'as'.",
        kind=NAMES,
    ),
    JobOption(
        "measures",
        "count, count(x), sum(x), min(x), max(x), avg(x), p50(x), p99.9(x) of fields; a "
        "name of your own follows 'as'.",
        kind=NAMES,
        default=("count",),
    ),
    JobOption(
        "percentiles",
        "Approximate ones keep a sketch; exact ones every distinct value in the state.",
        choices=("approximate", "exact"),
        default="approximate",
    ),
    JobOption(
        "percentile-accuracy",
        "The rank of an approximate percentile is off by 1/this of the count at most.",
        kind=INTEGER,
        default=10_000,
        minimum=10,
        maximum=1_000_000,
    ),
    JobOption(
        "output-mode",
        "update writes a row whenever it changes; append once, when the watermark has "
        "passed its window.",
        choices=("update", "append"),
        default="update",
    ),
    JobOption(
        "undecodable",
        "What becomes of records that cannot be decoded: the job fails and names the "
        "first; or they are counted in the progress and left out; or also written to "
        "dead-letter-topic with the reason in a header.",
        choices=(FAIL, SKIP, DEAD_LETTER),
        default=FAIL,
    ),
    JobOption("dead-letter-topic", "Where undecodable records go; it must exist."),
    JobOption(
        "create-target",
        "Create the target, compacted, with as many partitions as the topic, if it is missing.",
        kind=BOOLEAN,
        default=False,
    ),
    JobOption(
        "state-store",
        "Where open windows are kept: in the memory of the executors, or in RocksDB on "
        "their disks.",
        choices=("memory", "rocksdb"),
        default="rocksdb",
    ),
    JobOption(
        "state-partitions",
        "Over how many tasks the state is spread; fixed by the first run.",
        kind=INTEGER,
        default=4,
        minimum=1,
        maximum=10_000,
    ),
    *STREAM_OPTIONS,
    *SESSION_OPTIONS,
)

# What state and rows depend on. Watermark, policies and limits may change from run to run.
_FIXED: Final = (
    "topic",
    "target",
    "via",
    "value-format",
    "fields",
    "event-time",
    "event-time-unit",
    "window",
    "slide",
    "group-by",
    "measures",
    "percentiles",
    "percentile-accuracy",
    "output-mode",
    "state-store",
    "state-partitions",
)


_FIXED_BY_REGISTRY: Final = ("value-subject", "value-schema-version", "value-message")


class CheckpointMismatchError(PipelineError):
    """The checkpoint was made by other settings, or for a topic that is not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """What is computed, checked. `fields` is a schema in Spark's words, None unless JSON."""

    window: WindowSpec
    groups: tuple[GroupField, ...]
    measures: tuple[Measure, ...]
    event_time_field: str | None
    fields: str | None

    @classmethod
    def of(cls, settings: JobSettings) -> Aggregation:
        """Read the settings.

        Raises: OptionsError where they contradict each other.
        """
        length_ms = settings["window"]
        slide_ms = settings["slide"]
        window = WindowSpec(
            length_ms=length_ms,
            slide_ms=length_ms if slide_ms is None else slide_ms,
            watermark_ms=settings["watermark"],
        )
        groups = parse_group_fields(settings["group-by"] or ())
        measures = parse_measures(settings["measures"])
        check_names(groups, measures)
        event_time = settings["event-time"]
        event_time_field = None if event_time == OF_RECORD else event_time
        time_type = "STRING" if settings["event-time-unit"] == "iso" else "DOUBLE"
        used = needed_fields(groups, measures, event_time_field, time_type)
        return cls(
            window=window,
            groups=groups,
            measures=measures,
            event_time_field=event_time_field,
            fields=_fields(settings, used),
        )


def check(settings: JobSettings) -> None:
    """Refuse settings that contradict each other.

    Raises: OptionsError.
    """
    Aggregation.of(settings)
    check_registry(settings)
    if settings["value-format"] == REGISTRY and settings["value-schema-version"] == "latest":
        raise OptionsError(
            "--value-schema-version must be a number: state cannot change under a checkpoint, and "
            "the latest schema may"
        )
    topic, target = settings["topic"], settings["target"]
    letters = settings["dead-letter-topic"]
    if topic == target:
        raise OptionsError(f"topic and target are both {topic}: the job would read what it writes")
    if settings["undecodable"] == DEAD_LETTER and letters is None:
        raise OptionsError("--undecodable dead-letter needs --dead-letter-topic")
    if settings["undecodable"] != DEAD_LETTER and letters is not None:
        raise OptionsError("--dead-letter-topic is only used with --undecodable dead-letter")
    if letters in (topic, target):
        raise OptionsError(f"the dead letters need a topic of their own, other than {letters}")
    producer_settings(settings, target)


def remembered(
    settings: JobSettings,
    topic_id: str | None,
    target_id: str | None,
    target_partitions: int,
) -> str:
    """The file that a checkpoint gets: what its state and the places of its rows depend on."""
    document = {
        "version": _FILE_VERSION,
        "topic_id": topic_id,
        "target_id": target_id,
        "target_partitions": target_partitions,
        "settings": _fixed(settings),
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def remembered_partition_count(text: str) -> int:
    """How many partitions the target had, by a file that `check_remembered` has read."""
    return int(json.loads(text)["target_partitions"])


def check_remembered(
    text: str, settings: JobSettings, topic_id: str | None, target_id: str | None
) -> None:
    """Make sure that a checkpoint can be gone on with; an id that is None is not compared.

    Raises: CheckpointMismatchError, which says what differs and what to do.
    """
    where = f"the checkpoint {settings['checkpoint']}"
    try:
        document = json.loads(text)
        version, known = document["version"], document["settings"]
        known_id, _ = document["topic_id"], document["target_partitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatchError(f"{where}: {SETTINGS_FILE} cannot be read: {error}") from None
    anew = "or give a new --checkpoint, which starts at --starting-offsets and writes rows anew"
    if version != _FILE_VERSION:
        raise CheckpointMismatchError(f"{where} is of another release (format {version}); {anew}")
    differences = [
        f"{name} was {_shown(known.get(name))} and is {_shown(value)}"
        for name, value in _fixed(settings).items()
        if known.get(name) != value
    ]
    if differences:
        raise CheckpointMismatchError(
            f"{where} was made by other settings: {'; '.join(differences)}. State cannot change "
            f"under a checkpoint: set them back, {anew}"
        )
    if known_id is not None and topic_id is not None and known_id != topic_id:
        raise CheckpointMismatchError(
            f"the topic {settings['topic']} was deleted and made again since {where} was written "
            f"(its id was {known_id} and is {topic_id}), so that its offsets mean other records; "
            "give a new --checkpoint"
        )
    known_target_id = document.get("target_id")
    if None not in (known_target_id, target_id) and known_target_id != target_id:
        raise CheckpointMismatchError(
            f"the target {settings['target']} was deleted and made again since {where} was written "
            f"(its id was {known_target_id} and is {target_id}): it lacks earlier rows; {anew}"
        )


def _fields(settings: JobSettings, used: dict[str, str]) -> str | None:
    declared: str | None = settings["fields"]
    value_format = settings["value-format"]
    if value_format == "json":
        return declared or inferred_schema(used)
    if declared is None and value_format == REGISTRY:
        return None  # the registry says what there is; Spark refuses a field that is not
    if declared is not None:
        raise OptionsError(f"--fields are those of JSON; {value_format} values have one, value")
    others = sorted(set(used) - {"value"})
    if others:
        raise OptionsError(
            f"there is no field {others[0]!r}: {value_format} values have one, called value"
        )
    return None


def _fixed(settings: JobSettings) -> dict[str, Any]:
    """By name, as JSON gives it back."""
    by_registry = settings["value-format"] == REGISTRY
    names = (*_FIXED, *_FIXED_BY_REGISTRY) if by_registry else _FIXED
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name in names
        for value in (settings[name],)
    }


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    return "not set" if value is None else str(value)


def facts_of(document: Mapping[str, Any]) -> tuple[int, int]:
    """Late rows and undecodable records of a batch, from the JSON of Spark's progress."""
    late = sum(
        int(one.get("numRowsDroppedByWatermark") or 0)
        for one in document.get("stateOperators") or ()
    )
    observed = (document.get("observedMetrics") or {}).get("decoding") or {}
    return late, int(observed.get("undecodable") or 0)

"""The options of `quality`, and their checks. Pure.

Not here: what rules mean (`transforms/rule_parsing.py`), and whether they are SQL, which only
Spark knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.jobs import registry_options
from barnabas_pipelines.jobs.common_options import (
    BOOTSTRAP_SERVERS,
    CHECKPOINT,
    CLIENT_PROPERTIES,
    FAIL_ON_DATA_LOSS,
    GROUP,
    MAX_OFFSETS_PER_TRIGGER,
    SESSION_OPTIONS,
    SINK_OPTION,
    SOURCE_OPTION,
    STARTING_OFFSETS,
    TRIGGER,
    VALUE_FORMAT,
    VIA,
)
from barnabas_pipelines.jobs.registry_options import check_registry
from barnabas_pipelines.jobs.settings import DOCUMENT, JobOption, JobSettings
from barnabas_pipelines.transforms.rule_parsing import Rule, parse_rules
from barnabas_protocol.settings.kinds import NAMES, NUMBER

STREAM: Final = "stream"
BATCH: Final = "batch"
_STREAM_ONLY: Final = ("checkpoint", "group", "trigger", "max-offsets-per-trigger")


def _rules_complaint(document: Any) -> str | None:
    try:
        parse_rules(document)
    except OptionsError as error:
        return str(error).removeprefix("--rules: ")
    return None


def _share_complaint(share: float) -> str | None:
    return None if 0 <= share <= 1 else "it must be a share of all records, from 0 to 1"


OPTIONS: Final = (
    JobOption("topic", "The topic to read.", is_required=True),
    BOOTSTRAP_SERVERS,
    CLIENT_PROPERTIES,
    VIA,
    SOURCE_OPTION,
    SINK_OPTION,
    VALUE_FORMAT,
    JobOption(
        "key-format",
        "With registry, a key that its schema does not decode makes the record bad, and "
        "rules see its fields as record.key_fields.",
        choices=("raw", "registry"),
        default="raw",
    ),
    *registry_options.VALUE_OPTIONS,
    *registry_options.KEY_OPTIONS,
    JobOption(
        "fields",
        "The fields of JSON values, as Spark writes schemas: user STRING, amount "
        "DECIMAL(12,2), order STRUCT<size: INT>; or Spark's JSON of a schema. NOT NULL makes a "
        "field required. A value with a field of another type is bad.",
    ),
    JobOption("required", "Fields that may not be null or missing.", kind=NAMES),
    JobOption(
        "unknown-fields",
        "Whether a JSON value may have fields that are not declared: a new one is how a "
        "change of schema begins.",
        choices=("allow", "refuse"),
        default="allow",
    ),
    JobOption(
        "tombstones",
        "What records without a value are; good where the topic is compacted.",
        choices=("bad", "good"),
        default="bad",
    ),
    JobOption(
        "rules",
        "A list of rules, each with an optional name and one of: expression; or field "
        "with not-null: true, range: {min, max, above, below}, regex, set: [...]; or "
        "unique-in-batch: [fields].",
        kind=DOCUMENT,
        check=_rules_complaint,
    ),
    JobOption(
        "dead-letter-topic",
        "Where bad records go, as they are, with the reasons in headers; it must exist. "
        "Without it they are counted only.",
    ),
    JobOption(
        "dead-letter-table",
        "A table of Delta Lake that gets bad records, as they are, each once, with the "
        "reason; several jobs may share it. A folder on any file system that Spark knows.",
    ),
    JobOption("good-topic", "Where good records go on to, as they are."),
    JobOption("report", "A file for the counts as JSON; written after each batch."),
    JobOption(
        "metrics", "A file for the counts in Prometheus' text format, as its node exporter reads."
    ),
    JobOption(
        "fail-above",
        "Fail at the end if more than this share of the records is bad, such as 0.01.",
        kind=NUMBER,
        check=_share_complaint,
    ),
    JobOption(
        "mode",
        "stream goes on where the checkpoint says; batch reads the same range each time.",
        choices=(STREAM, BATCH),
        default=STREAM,
    ),
    STARTING_OFFSETS,
    JobOption(
        "ending-offsets",
        "Where a batch ends: latest or JSON; a stream has no end.",
        default="latest",
    ),
    TRIGGER,
    replace(CHECKPOINT, is_required=False),
    GROUP,
    MAX_OFFSETS_PER_TRIGGER,
    FAIL_ON_DATA_LOSS,
    *SESSION_OPTIONS,
)


def check(settings: JobSettings) -> None:
    """Refuse settings that contradict each other. Raises: OptionsError."""
    all_rules(settings)
    check_registry(settings)
    topic = settings["topic"]
    for name in ("dead-letter-topic", "good-topic"):
        if settings[name] == topic:
            raise OptionsError(f"--{name} is the topic that is read: the job would never end")
    if settings["good-topic"] and settings["good-topic"] == settings["dead-letter-topic"]:
        raise OptionsError("--good-topic and --dead-letter-topic are the same")
    if settings["unknown-fields"] == "refuse" and settings["value-format"] != "json":
        raise OptionsError("--unknown-fields is only for --value-format json")
    if settings["value-format"] == "json" and not settings["fields"]:
        raise OptionsError("--fields is missing: which fields JSON values have")
    if settings["value-format"] != "json" and (settings["fields"] or "fields" in settings.given):
        raise OptionsError("--fields is only for --value-format json")
    if settings["mode"] == STREAM:
        if not settings["checkpoint"]:
            raise OptionsError(f"--checkpoint is missing: {CHECKPOINT.why}")
        if "ending-offsets" in settings.given:
            raise OptionsError("--ending-offsets is only for --mode batch")
        return
    for name in _STREAM_ONLY:
        if name in settings.given:
            raise OptionsError(f"--{name} is only for --mode stream")


def all_rules(settings: JobSettings) -> tuple[Rule, ...]:
    """Those of required fields, then those that are written. Raises: OptionsError."""
    written = parse_rules(settings["rules"])
    required = tuple(required_rule(name) for name in settings["required"] or ())
    names = {rule.name for rule in required}
    for rule in written:
        if rule.name in names:
            raise OptionsError(
                f"--rules: a field that is required has the rule {rule.name} already"
            )
    return (*required, *written)


def required_rule(field: str) -> Rule:
    """The rule of a field that may not be null or missing. Raises: OptionsError."""
    (rule,) = parse_rules([{"field": field, "not-null": True, "name": f"{field}-required"}])
    return rule

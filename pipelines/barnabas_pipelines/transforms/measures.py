"""What is measured in each window, and of which fields: parsed from text, without Spark.

    count                 records
    count(user)           records whose field is not null
    sum(amount)  min(amount)  max(amount)  avg(amount)
    p99(latency)  p99.9(latency)      percentiles, 0 to 100
    sum(order.amount) as revenue      a field by its path, and a name of one's own

Fields are those of the decoded value. Grouping names are fields too, or parts of the record:
`record.key` (as text), `record.topic`, `record.partition`.

Windows begin at multiples of the slide since 1970 in UTC, whatever the session's time zone is.

Invariants: names are unique and not those of the window's columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas_pipelines.errors import OptionsError

WINDOW_COLUMNS: Final = ("window_start", "window_end")
RECORD_FIELDS: Final = ("record.key", "record.topic", "record.partition")

_PATH: Final = r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*"
_NAMED: Final = re.compile(r"\s*(?P<what>.+?)(?:\s+as\s+(?P<name>[A-Za-z_]\w*))?\s*", re.IGNORECASE)
_CALL: Final = re.compile(rf"(?P<function>[a-z]+|p[0-9.]+)\(\s*(?P<field>{_PATH})\s*\)")
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")
_FORMS: Final = "count, count(field), sum(field), min(field), max(field), avg(field), p99(field)"


class MeasureKind(Enum):
    """How a field is measured."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    PERCENTILE = "percentile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number per window and group.

    `field` is None only for the count of records; `percentile` is 0 to 100, for percentiles only.
    """

    kind: MeasureKind
    name: str
    field: str | None = None
    percentile: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupField:
    """What rows are grouped by besides the window; `path` is a field or one of RECORD_FIELDS."""

    path: str
    name: str

    @property
    def is_of_record(self) -> bool:
        """Whether it is part of the record and not of its value."""
        return self.path in RECORD_FIELDS


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """The measures, in the order given.

    Raises: OptionsError for one that cannot be read, or for a name that two have.
    """
    measures = tuple(_parse_measure(text) for text in texts)
    if not measures:
        raise OptionsError(f"nothing is measured: give one or more of {_FORMS}")
    return measures


def parse_group_fields(texts: Iterable[str]) -> tuple[GroupField, ...]:
    """The fields to group by, in the order given.

    Raises: OptionsError for one that is no path.
    """
    return tuple(_parse_group_field(text) for text in texts)


def check_names(groups: Sequence[GroupField], measures: Sequence[Measure]) -> None:
    """Make sure that each column of the result has a name of its own, in Spark's eyes too.

    Raises: OptionsError.
    """
    seen = set(WINDOW_COLUMNS)
    for name in [*(group.name for group in groups), *(measure.name for measure in measures)]:
        if name.lower() in seen:
            raise OptionsError(f"two columns would be called {name!r}: rename one with 'as'")
        seen.add(name.lower())


def needed_fields(
    groups: Sequence[GroupField],
    measures: Sequence[Measure],
    event_time_field: str | None = None,
    event_time_type: str = "TIMESTAMP",
) -> dict[str, str]:
    """The fields of the value that are used, with the Spark type each has unless it is declared.

    Raises: OptionsError if two uses of a field want different types of it.
    """
    types: dict[str, str] = {}
    wanted = [(group.path, "STRING") for group in groups if not group.is_of_record]
    wanted += [(one.field, "DOUBLE") for one in measures if one.field and not _is_count(one)]
    if event_time_field is not None:
        wanted.append((event_time_field, event_time_type))
    for path, kind in wanted:
        if types.setdefault(path, kind) != kind:
            raise OptionsError(
                f"the field {path!r} is used as {types[path]} and as {kind}: declare the fields"
            )
    for one in measures:
        if one.field and _is_count(one):
            types.setdefault(one.field, "STRING")
    return types


def inferred_schema(types: dict[str, str]) -> str:
    """The fields as Spark's DDL: paths become nested structs.

    Raises: OptionsError if a path leads through a field that is itself used as a value.
    """
    tree: dict[str, object] = {}
    for path, kind in types.items():
        *parents, leaf = path.split(".")
        node = tree
        for parent in parents:
            child = node.setdefault(parent, {})
            if not isinstance(child, dict):
                raise OptionsError(f"{path!r} leads through a field that is used as a value too")
            node = child
        if node.setdefault(leaf, kind) is not kind:
            raise OptionsError(f"{path!r} is used as a value, and fields inside of it too")
    return ", ".join(f"{name} {_type_text(kind)}" for name, kind in tree.items())


def _type_text(node: object) -> str:
    if not isinstance(node, dict):
        return str(node)
    inner = ", ".join(f"{name}: {_type_text(kind)}" for name, kind in node.items())
    return f"STRUCT<{inner}>"


def _is_count(measure: Measure) -> bool:
    return measure.kind is MeasureKind.COUNT


def _parse_measure(text: str) -> Measure:
    what, name = _named(text)
    if what == "count":
        return Measure(kind=MeasureKind.COUNT, name=name or "count")
    call = _CALL.fullmatch(what)
    if call is None:
        raise OptionsError(f"{text!r} is no measure: give one of {_FORMS}, and 'as NAME' behind it")
    function, field = call["function"], call["field"]
    default_name = f"{function}_{field}".replace(".", "_")
    if function in {kind.value for kind in MeasureKind if kind is not MeasureKind.PERCENTILE}:
        return Measure(kind=MeasureKind(function), name=name or default_name, field=field)
    percentile = _PERCENTILE.fullmatch(function)
    if percentile is None or not 0 <= float(percentile[1]) <= 100:
        raise OptionsError(f"{function!r} in {text!r} is no measure: give one of {_FORMS}")
    return Measure(
        kind=MeasureKind.PERCENTILE,
        name=name or default_name,
        field=field,
        percentile=float(percentile[1]),
    )


def _parse_group_field(text: str) -> GroupField:
    path, name = _named(text)
    if re.fullmatch(_PATH, path) is None:
        raise OptionsError(
            f"{text!r} is no field to group by: give its path, such as order.country"
        )
    if path.startswith("record.") and path not in RECORD_FIELDS:
        raise OptionsError(f"{path!r} is not known: of the record there are {RECORD_FIELDS}")
    default_name = path.removeprefix("record.") if path in RECORD_FIELDS else path
    return GroupField(path=path, name=name or default_name.replace(".", "_"))


def _named(text: str) -> tuple[str, str | None]:
    match = _NAMED.fullmatch(text)
    if match is None:
        raise OptionsError("a measure or a field to group by is empty")
    return match["what"], match["name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """Windows of `length_ms`, one every `slide_ms`; tumbling where the two are the same.

    `watermark_ms` is how much older than the newest event time a record may be to be counted.
    Raises: OptionsError for windows that would leave records out, or count them without end.
    """

    length_ms: int
    slide_ms: int
    watermark_ms: int

    def __post_init__(self) -> None:
        if self.length_ms <= 0:
            raise OptionsError("the window must be longer than 0, for example 1 minute")
        if not 0 < self.slide_ms <= self.length_ms:
            raise OptionsError(
                f"windows of {self.length_ms} ms, one every {self.slide_ms} ms: the slide must be "
                "more than 0, and no longer than the window, or records would lie in none"
            )
        if self.watermark_ms < 0:
            raise OptionsError("the watermark must be 0 or more")

    @property
    def windows_per_record(self) -> int:
        """In how many windows a record is counted, at most."""
        return -(-self.length_ms // self.slide_ms)

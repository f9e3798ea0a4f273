"""Windows over event time: measures per window and group, as rows and as records of a topic.

The key of such a record is JSON made of the window's start and the group, the same bytes whenever
it is computed: written again after a failure, a row replaces itself where a topic is compacted.

Percentiles come in two ways. `approximate` keeps a sketch per window, group and field
(`approx_percentile`): the value it gives is one of those measured, and its rank is off by at most
1/accuracy of their count, so that with the default of 10,000 a p99 lies between the exact p98.99
and p99.01. `exact` keeps every distinct value with its count: the state grows with the data. All
percentiles of one field share one sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from barnabas_pipelines.transforms.decoding import field_column
from barnabas_pipelines.transforms.measures import (
    WINDOW_COLUMNS,
    GroupField,
    Measure,
    MeasureKind,
    WindowSpec,
)

ACCURACY_DEFAULT: Final = 10_000
_AGGREGATES: Final[dict[MeasureKind, Callable[[Column], Column]]] = {
    MeasureKind.COUNT: sql.count,
    MeasureKind.SUM: sql.sum,
    MeasureKind.MIN: sql.min,
    MeasureKind.MAX: sql.max,
    MeasureKind.AVG: sql.avg,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileMethod:
    """How percentiles are computed; `accuracy` counts for approximate ones only."""

    is_exact: bool = False
    accuracy: int = ACCURACY_DEFAULT

    def aggregate(self, value: Column, fractions: Sequence[float]) -> Column:
        """An array with the value at each fraction, 0 to 1."""
        if self.is_exact:
            return sql.percentile(value, list(fractions))
        return sql.percentile_approx(value, list(fractions), self.accuracy)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureColumns:
    """What to aggregate, and what to select of the result."""

    aggregates: tuple[Column, ...]
    selected: tuple[Column, ...]


def measure_columns(
    measures: Sequence[Measure],
    value_of: Callable[[str], Column],
    method: PercentileMethod,
) -> MeasureColumns:
    """The columns of the measures, in their order; `value_of` gives the column of a field."""
    fractions: dict[str, list[float]] = {}
    aggregates: list[Column] = []
    selected: list[Column] = []
    for measure in measures:
        if measure.kind is MeasureKind.PERCENTILE:
            assert measure.field is not None and measure.percentile is not None
            wanted = fractions.setdefault(measure.field, [])
            column = sql.col(_sketch_name(list(fractions).index(measure.field)))
            selected.append(column.getItem(len(wanted)).alias(measure.name))
            wanted.append(measure.percentile / 100)
            continue
        value = sql.lit(1) if measure.field is None else value_of(measure.field)
        aggregates.append(_AGGREGATES[measure.kind](value).alias(measure.name))
        selected.append(sql.col(f"`{measure.name}`"))
    for number, (field, wanted) in enumerate(fractions.items()):
        sketch = method.aggregate(value_of(field), wanted)
        aggregates.append(sketch.alias(_sketch_name(number)))
    return MeasureColumns(aggregates=tuple(aggregates), selected=tuple(selected))


def _sketch_name(number: int) -> str:
    return f"__percentiles_{number}"


# Spelled out, so that neither the session's time zone nor its settings change a byte.
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
}


def windowed(
    records: DataFrame,
    spec: WindowSpec,
    groups: Sequence[GroupField],
    measures: Sequence[Measure],
    *,
    method: PercentileMethod | None = None,
    time_column: str = "event_time",
    value_of: Callable[[str], Column] = field_column,
) -> DataFrame:
    """A row per window and group: `window_start`, `window_end`, the groups, the measures.

    In a stream, records older than the watermark are dropped, and windows leave the state when it
    has passed them. A field to group by that is null is a group too.
    """
    length = f"{spec.length_ms} milliseconds"
    slide = f"{spec.slide_ms} milliseconds"
    columns = measure_columns(measures, value_of, method or PercentileMethod())
    keys = [group_column(group, value_of).alias(group.name) for group in groups]
    window = sql.window(sql.col(time_column), length, slide).alias("__window")
    start, end = WINDOW_COLUMNS
    return (
        records.withWatermark(time_column, f"{spec.watermark_ms} milliseconds")
        .groupBy(window, *keys)
        .agg(*columns.aggregates)
        .select(
            sql.col("__window.start").alias(start),
            sql.col("__window.end").alias(end),
            *(sql.col(f"`{group.name}`") for group in groups),
            *columns.selected,
        )
    )


def as_records(rows: DataFrame, groups: Sequence[GroupField]) -> DataFrame:
    """Rows of `windowed` as `key` and `value`, both JSON text.

    The key has the window's start and the group, the value everything. Numbers that JSON does not
    have (an infinite sum) become text.
    """
    key_names = [WINDOW_COLUMNS[0], *(group.name for group in groups)]
    key = sql.struct(*(sql.col(f"`{name}`") for name in key_names))
    value = sql.struct(*(sql.col(f"`{name}`") for name in rows.columns))
    return rows.select(
        sql.to_json(key, _JSON_OPTIONS).alias("key"),
        sql.to_json(value, _JSON_OPTIONS).alias("value"),
    )


def group_column(group: GroupField, value_of: Callable[[str], Column] = field_column) -> Column:
    """The column of a field to group by, of the value or of the record."""
    if not group.is_of_record:
        return value_of(group.path)
    name = group.path.removeprefix("record.")
    return sql.col(name).cast("string") if name == "key" else sql.col(name)

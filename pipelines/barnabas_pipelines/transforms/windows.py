"""Windows over event time: measures per window and group, as rows and as records of a topic.

The key of such a record is JSON made of the window's start and the group, the same bytes whenever
it is computed: written again after a failure, a row replaces itself where a topic is compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from barnabas_pipelines.transforms.decoding import field_column
from barnabas_pipelines.transforms.measures import WINDOW_COLUMNS, GroupField, Measure
from barnabas_pipelines.transforms.percentiles import PercentileMethod, measure_columns
from barnabas_pipelines.transforms.window_spec import WindowSpec

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

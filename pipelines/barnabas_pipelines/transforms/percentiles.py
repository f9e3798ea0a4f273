"""Measures as aggregates of Spark, percentiles among them.

Percentiles come in two ways. `approximate` keeps a sketch per window, group and field
(`approx_percentile`): the value it gives is one of those measured, and its rank is off by at most
1/accuracy of their count, so that with the default of 10,000 a p99 lies between the exact p98.99
and p99.01. `exact` keeps every distinct value with its count: the state grows with the data.

All percentiles of one field share one sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sql

from barnabas_pipelines.transforms.measures import Measure, MeasureKind

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

"""Measures and windows as text: what is understood, and what is refused by name."""

import pytest

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.transforms.measures import (
    GroupField,
    Measure,
    MeasureKind,
    WindowSpec,
    check_names,
    inferred_schema,
    needed_fields,
    parse_group_fields,
    parse_measures,
)


def test_measures_are_read_with_their_default_names() -> None:
    """The names are the columns of the result, so they must be plain words."""
    measures = parse_measures(["count", "sum(order.amount)", "p99.9(latency)", "avg( x ) as mean"])
    assert measures == (
        Measure(kind=MeasureKind.COUNT, name="count"),
        Measure(kind=MeasureKind.SUM, name="sum_order_amount", field="order.amount"),
        Measure(
            kind=MeasureKind.PERCENTILE, name="p99_9_latency", field="latency", percentile=99.9
        ),
        Measure(kind=MeasureKind.AVG, name="mean", field="x"),
    )


@pytest.mark.parametrize(
    "text", ["sum", "median(x)", "p101(x)", "p(x)", "sum(x", "sum(x y)", "count()", "percentile(x)"]
)
def test_what_is_no_measure_is_refused_and_named(text: str) -> None:
    """A measure that is quietly left out would look like a column that is always missing."""
    with pytest.raises(OptionsError, match="no measure"):
        parse_measures([text])


def test_nothing_to_measure_is_an_error() -> None:
    """Windows without a measure are rows that say nothing."""
    with pytest.raises(OptionsError, match="nothing is measured"):
        parse_measures([])


def test_groups_are_fields_or_parts_of_the_record() -> None:
    """A key or a partition can be grouped by although it is not in the value."""
    assert parse_group_fields(["order.country", "record.key as user"]) == (
        GroupField(path="order.country", name="order_country"),
        GroupField(path="record.key", name="user"),
    )
    assert parse_group_fields(["record.partition"])[0].is_of_record
    with pytest.raises(OptionsError, match=r"record\.offset"):
        parse_group_fields(["record.offset"])
    with pytest.raises(OptionsError, match="no field to group by"):
        parse_group_fields(["upper(country)"])


@pytest.mark.parametrize(
    ("groups", "measures"),
    [
        (["window_start"], ["count"]),
        (["Count"], ["count"]),
        ([], ["sum(a.b)", "sum(a_b)"]),
    ],
)
def test_two_columns_of_one_name_are_refused(groups: list[str], measures: list[str]) -> None:
    """Spark does not tell upper from lower case, and JSON would hold one of the two."""
    with pytest.raises(OptionsError, match="rename one with 'as'"):
        check_names(parse_group_fields(groups), parse_measures(measures))


def test_fields_are_inferred_from_their_uses() -> None:
    """Without declared fields a group is text, what is measured a number, a time a timestamp."""
    groups = parse_group_fields(["order.country", "record.key"])
    measures = parse_measures(["count", "count(note)", "sum(order.amount)", "p50(order.amount)"])
    types = needed_fields(groups, measures, "at")
    assert inferred_schema(types) == (
        "order STRUCT<country: STRING, amount: DOUBLE>, at TIMESTAMP, note STRING"
    )


def test_a_field_of_two_types_must_be_declared() -> None:
    """Read as text it cannot be summed, read as a number its groups would change."""
    with pytest.raises(OptionsError, match="declare the fields"):
        needed_fields(parse_group_fields(["size"]), parse_measures(["sum(size)"]))
    types = needed_fields((), parse_measures(["count(size)", "sum(size)"]))
    assert types == {"size": "DOUBLE"}


def test_a_field_is_a_value_or_holds_fields() -> None:
    """A path through a number finds nothing."""
    for texts in (["sum(a)", "sum(a.b)"], ["sum(a.b)", "sum(a)"]):
        with pytest.raises(OptionsError, match="used as a value"):
            inferred_schema(needed_fields((), parse_measures(texts)))


@pytest.mark.parametrize(
    ("length_ms", "slide_ms", "watermark_ms"), [(0, 0, 0), (10, 0, 0), (10, 11, 0), (10, 10, -1)]
)
def test_windows_that_miss_records_or_never_end_are_refused(
    length_ms: int, slide_ms: int, watermark_ms: int
) -> None:
    """With a slide longer than the window, records between two windows would not be counted."""
    with pytest.raises(OptionsError):
        WindowSpec(length_ms=length_ms, slide_ms=slide_ms, watermark_ms=watermark_ms)


def test_a_record_is_counted_once_per_overlapping_window() -> None:
    """The state grows by this factor, and the plan says so."""
    tumbling = WindowSpec(length_ms=60_000, slide_ms=60_000, watermark_ms=0)
    assert tumbling.windows_per_record == 1
    assert WindowSpec(length_ms=60, slide_ms=25, watermark_ms=0).windows_per_record == 3

"""Windows, groups and percentiles on tiny frames, against arithmetic done by hand."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_pipelines import schema
from barnabas_pipelines.transforms.measures import WindowSpec, parse_group_fields, parse_measures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = WindowSpec(length_ms=60_000, slide_ms=60_000, watermark_ms=0)


def decoded(spark: "SparkSession", values: list[tuple[float, dict[str, Any]]]) -> "DataFrame":
    """Decoded JSON records, each so many seconds after noon."""
    from pyspark.sql.types import StructType

    from barnabas_pipelines.transforms.decoding import (
        ValueFormat,
        decode_values,
        with_event_time,
    )

    rows = [
        (b"k%d" % (offset % 2), json.dumps(value).encode(), "t", 0, offset, _after(seconds), 0)
        for offset, (seconds, value) in enumerate(values)
    ]
    records = spark.createDataFrame(rows, schema.ddl(include_headers=False))
    fields = StructType.fromDDL("user STRING, amount DOUBLE, order STRUCT<size: INT>")
    return with_event_time(decode_values(records, ValueFormat.JSON, fields))


def _after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_each_window_and_group_has_its_measures(spark: "SparkSession") -> None:
    """The worked example of the documentation: two windows, two users and a record without one."""
    from barnabas_pipelines.transforms.windows import windowed

    frame = decoded(
        spark,
        [
            (0, {"user": "ann", "amount": 1, "order": {"size": 5}}),
            (59.999, {"user": "ann", "amount": 4}),
            (60, {"user": "ann", "amount": 9}),
            (1, {"amount": 7}),
            (2, {"user": "bob"}),
        ],
    )
    measures = parse_measures(
        ["count", "count(amount)", "sum(amount)", "min(amount)", "max(order.size)", "avg(amount)"]
    )
    rows = windowed(frame, MINUTE, parse_group_fields(["user"]), measures).collect()
    found = {(row.window_start.astimezone(UTC), row.user): tuple(row)[3:] for row in rows}
    assert found == {
        (_after(0), "ann"): (2, 2, 5.0, 1.0, 5, 2.5),
        (_after(60), "ann"): (1, 1, 9.0, 9.0, None, 9.0),
        (_after(0), None): (1, 1, 7.0, 7.0, None, 7.0),
        (_after(0), "bob"): (1, 0, None, None, None, None),
    }


def test_sliding_windows_count_a_record_in_each_that_holds_it(spark: "SparkSession") -> None:
    """A record at 12:00:30 lies in the windows of a minute that begin at 12:00:30 and 12:00:00."""
    from barnabas_pipelines.transforms.windows import windowed

    spec = WindowSpec(length_ms=60_000, slide_ms=30_000, watermark_ms=0)
    rows = windowed(decoded(spark, [(30, {})]), spec, (), parse_measures(["count"])).collect()
    starts = sorted(row.window_start.astimezone(UTC) for row in rows)
    assert starts == [_after(0), _after(30)]


def test_keys_are_the_same_bytes_in_any_time_zone(spark: "SparkSession") -> None:
    """A row that is written again must replace itself, also by a session with other settings."""
    from barnabas_pipelines.transforms.windows import as_records, windowed

    groups = parse_group_fields(["user", "record.key"])
    frame = decoded(spark, [(0, {"user": 'a "b"\n'}), (1, {"amount": 2.5})])
    rows = windowed(frame, MINUTE, groups, parse_measures(["sum(amount)"]))
    wanted = {
        r'{"window_start":"2026-01-01T12:00:00.000Z","user":"a \"b\"\n","key":"k0"}': None,
        '{"window_start":"2026-01-01T12:00:00.000Z","user":null,"key":"k1"}': 2.5,
    }
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "America/New_York", "Asia/Kathmandu"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            records = {row.key: json.loads(row.value) for row in as_records(rows, groups).collect()}
            assert {key: value["sum_amount"] for key, value in records.items()} == wanted
            assert {value["window_end"] for value in records.values()} == {
                "2026-01-01T12:01:00.000Z"
            }
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_exact_percentiles_are_those_of_the_sorted_values(spark: "SparkSession") -> None:
    """Between two values `percentile` interpolates, as most tools do."""
    from barnabas_pipelines.transforms.windows import PercentileMethod, windowed

    frame = decoded(spark, [(0, {"amount": number}) for number in (4, 1, 3, 2)])
    measures = parse_measures(["p0(amount)", "p50(amount)", "count", "p100(amount) as most"])
    method = PercentileMethod(is_exact=True)
    (row,) = windowed(frame, MINUTE, (), measures, method=method).collect()
    assert row.asDict() | {"window_start": None, "window_end": None} == {
        "window_start": None,
        "window_end": None,
        "p0_amount": 1.0,
        "p50_amount": 2.5,
        "count": 4,
        "most": 4.0,
    }


def test_approximate_percentiles_are_off_by_their_accuracy_at_most(spark: "SparkSession") -> None:
    """With accuracy 100 the rank of what is returned is off by 1 % of the count, not more."""
    from barnabas_pipelines.transforms.windows import PercentileMethod, windowed

    dice = random.Random(7)
    numbers = [dice.lognormvariate(3, 2) for _ in range(5000)]
    frame = decoded(spark, [(0, {"amount": number}) for number in numbers]).repartition(5)
    wanted = ["p1", "p50", "p90", "p99", "p99.9"]
    measures = parse_measures([f"{name}(amount) as {name.replace('.', '_')}" for name in wanted])
    (row,) = windowed(frame, MINUTE, (), measures, method=PercentileMethod(accuracy=100)).collect()
    ordered = sorted(numbers)
    for name in wanted:
        rank = ordered.index(row[name.replace(".", "_")]) / len(ordered)
        assert abs(rank - float(name[1:]) / 100) <= 0.01, (name, rank)

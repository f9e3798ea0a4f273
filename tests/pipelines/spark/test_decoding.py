"""Values that can and cannot be decoded, on tiny frames: nothing is lost without a reason."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from barnabas_pipelines import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR_MS = 3_600_000
NOT_JSON = "the value is not JSON"
NOT_ONE = "the value is not one JSON object"
OTHER_TYPE = "a field is not of its declared type, or the JSON is not strict"


def frame_of(spark: "SparkSession", values: "list[bytes | None]") -> "DataFrame":
    """Records of one partition with these values."""
    rows = [(b"k", value, "t", 0, offset, AT, 0) for offset, value in enumerate(values)]
    return spark.createDataFrame(rows, schema.ddl(include_headers=False))


JSON_VALUES: list[tuple[bytes | None, str | None]] = [
    (b'{"a": 1, "s": "x", "o": {"id": 3}}', None),
    (b' {"s": "\xc3\xa9"} ', None),
    (b"{}", None),
    (b'{"other": 1, "a": null}', None),
    (None, "the record has no value"),
    (b"\xff\xfe", "the value is not UTF-8"),
    (b"", NOT_ONE),
    (b"   ", NOT_ONE),
    (b"null", NOT_ONE),
    (b'"x"', NOT_ONE),
    (b"7", NOT_ONE),
    (b"[1, 2]", NOT_ONE),
    (b'[{"a": 1}]', NOT_ONE),
    (b'{"a": 1}, {"a": 2}', NOT_ONE),
    (b'{"a": 1}{"a": 2}', NOT_JSON),
    (b'{"a": 1}\n{"a": 2}', NOT_JSON),
    (b'{"a": 1} and more', NOT_JSON),
    (b'{"a": 1', NOT_JSON),
    (b"{'a': 1}", OTHER_TYPE),
    (b'{"a": NaN}', NOT_JSON),
    (b'{"a": "1.5"}', OTHER_TYPE),
    (b'{"o": "text"}', OTHER_TYPE),
    (b'{"a": 1e400}', "the field a is not finite"),
    (b'{"o": {"x": -1e400}}', "the field o.x is not finite"),
]


def test_every_json_value_has_fields_or_a_reason(spark: "SparkSession") -> None:
    """Spark alone takes the first of two objects in a value, and an empty value for nulls."""
    from pyspark.sql.types import StructType

    from barnabas_pipelines.transforms.decoding import ValueFormat, decode_values

    fields = StructType.fromDDL("a DOUBLE, s STRING, o STRUCT<id: BIGINT, x: DOUBLE>")
    records = frame_of(spark, [value for value, _ in JSON_VALUES])
    decoded = decode_values(records, ValueFormat.JSON, fields).orderBy("offset").collect()
    reasons = [(JSON_VALUES[row.offset][0], row.undecodable_reason) for row in decoded]
    assert reasons == JSON_VALUES
    assert decoded[0].decoded.asDict(recursive=True) == {
        "a": 1.0,
        "s": "x",
        "o": {"id": 3, "x": None},
    }
    assert decoded[1].decoded.s == "é"
    assert decoded[2].decoded.asDict() == {"a": None, "s": None, "o": None}


@pytest.mark.parametrize(
    ("format_name", "values"),
    [
        ("number", {b" 1.5 ": 1.5, b"-2e3": -2000.0, b"x": None, b"NaN": None, b"1e999": None}),
        ("text", {b"plain": "plain", b"": "", b"\xff": None}),
        ("raw", {b"\xff": b"\xff"}),
    ],
)
def test_plain_values_are_decoded_or_have_a_reason(
    spark: "SparkSession", format_name: str, values: dict[bytes, object]
) -> None:
    """Infinity and NaN would make every sum they are in worthless."""
    from barnabas_pipelines.transforms.decoding import ValueFormat, decode_values

    decoded = decode_values(frame_of(spark, [*values, None]), ValueFormat(format_name))
    rows = decoded.orderBy("offset").collect()
    for row, wanted in zip(rows, values.values(), strict=False):
        assert (row.undecodable_reason is None) == (wanted is not None), row
        if wanted is not None:
            assert row.decoded.value == wanted
    assert (rows[-1].undecodable_reason is None) == (format_name == "raw")


def test_event_times_come_from_text_or_numbers_of_a_unit(spark: "SparkSession") -> None:
    """A number of milliseconds taken for seconds lies 57,000 years ahead."""
    from pyspark.sql.types import StructType

    from barnabas_pipelines.transforms.decoding import (
        EventTime,
        TimeUnit,
        ValueFormat,
        decode_values,
        with_event_time,
    )

    seconds = int(AT.timestamp())
    values: list[bytes | None] = [
        b'{"iso": "2026-01-01T13:00:00+01:00", "no": %d, "text": "2026-01-01T12:00:00Z"}' % seconds,
        b'{"iso": "2026-01-01T12:00:00", "no": %d.25, "text": "yesterday"}' % seconds,
        b'{"no": 1e300}',
        b'{"no": -5}',
    ]
    fields = StructType.fromDDL("iso TIMESTAMP, no DOUBLE, text STRING")
    decoded = decode_values(frame_of(spark, values), ValueFormat.JSON, fields)

    def times(field: str, unit: TimeUnit | None = None) -> list[float | None]:
        source = EventTime(field=field, ahead_ms_max=HOUR_MS, unit=unit)
        rows = with_event_time(decoded, source).orderBy("offset").collect()
        assert all((row.event_time is None) == (row.undecodable_reason is not None) for row in rows)
        return [row.event_time and row.event_time.timestamp() for row in rows]

    assert times("no", TimeUnit.SECONDS) == [seconds, seconds + 0.25, None, None]
    assert times("iso") == [seconds, seconds, None, None]
    assert times("text") == [seconds, None, None, None]


def test_a_time_far_ahead_of_its_record_is_refused(spark: "SparkSession") -> None:
    """One such record would move the watermark, and all others would be dropped as late."""
    from pyspark.sql.types import StructType

    from barnabas_pipelines.transforms.decoding import (
        EventTime,
        ValueFormat,
        decode_values,
        with_event_time,
    )

    values: list[bytes | None] = [
        b'{"at": "2026-01-01T13:00:00Z"}',
        b'{"at": "2026-01-01T13:00:00.001Z"}',
        b'{"at": "1999-01-01T00:00:00Z"}',
    ]
    decoded = decode_values(
        frame_of(spark, values), ValueFormat.JSON, StructType.fromDDL("at TIMESTAMP")
    )
    source = EventTime(field="at", ahead_ms_max=HOUR_MS)
    rows = with_event_time(decoded, source).orderBy("offset").collect()
    assert [row.undecodable_reason for row in rows] == [
        None,
        "the time in at is too far ahead of the record's timestamp",
        None,
    ]


def test_a_record_without_a_timestamp_has_no_event_time(spark: "SparkSession") -> None:
    """Spark shows it as one millisecond before 1970; no window is meant by that."""
    from pyspark.sql import functions as sql

    from barnabas_pipelines.transforms.decoding import (
        ValueFormat,
        decode_values,
        with_event_time,
    )

    records = frame_of(spark, [b"x"]).withColumn("timestamp", sql.timestamp_millis(sql.lit(-1)))
    (row,) = with_event_time(decode_values(records, ValueFormat.RAW)).collect()
    assert row.undecodable_reason == "the record has no timestamp"


def test_refusing_names_the_record_even_if_no_field_is_used(spark: "SparkSession") -> None:
    """A count of records needs no field, and must fail all the same."""
    from pyspark.errors import PySparkException

    from barnabas_pipelines.transforms.decoding import (
        ValueFormat,
        decode_values,
        refuse_undecodable,
    )

    good = decode_values(frame_of(spark, [b"1", b"2"]), ValueFormat.NUMBER)
    assert refuse_undecodable(good).count() == 2
    bad = decode_values(frame_of(spark, [b"1", b"two"]), ValueFormat.NUMBER)
    with pytest.raises(
        PySparkException,
        match="undecodable record: topic t, partition 0, offset 1: the value is no number",
    ):
        refuse_undecodable(bad).count()


def test_records_are_parted_into_decodable_and_undecodable(spark: "SparkSession") -> None:
    """Together they are all records: none is in both, none in neither."""
    from barnabas_pipelines.transforms.decoding import (
        ValueFormat,
        decode_values,
        only_decodable,
        only_undecodable,
    )

    decoded = decode_values(frame_of(spark, [b"1", b"x", None, b"2"]), ValueFormat.NUMBER)
    assert sorted(row.offset for row in only_decodable(decoded).collect()) == [0, 3]
    assert sorted(row.offset for row in only_undecodable(decoded).collect()) == [1, 2]


def test_a_key_that_is_needed_as_text_must_be_text(spark: "SparkSession") -> None:
    """Two keys that differ only in bytes that are no text would become one group."""
    from barnabas_pipelines.transforms.decoding import ValueFormat, decode_values, with_text_key

    rows = [(key, b"1", "t", 0, 0, AT, 0) for key in (b"good", None, b"\xff", b"\xfe")]
    records = spark.createDataFrame(rows, schema.ddl(include_headers=False))
    keyed = with_text_key(decode_values(records, ValueFormat.NUMBER)).collect()
    reasons = {row.key and bytes(row.key): row.undecodable_reason for row in keyed}
    wrong = "the key is not UTF-8"
    assert reasons == {b"good": None, None: None, b"\xff": wrong, b"\xfe": wrong}

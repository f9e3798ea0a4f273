"""Values of records, decoded; and the reason where one cannot be.

`decode_values` adds two columns to the records of a topic: `decoded`, a struct of the fields, and
`undecodable_reason`, which is null where all is well. Nothing is dropped here: the caller counts,
keeps, moves or refuses what has a reason. Whether a record is decodable depends on the record
alone, never on a clock, so that two queries over one topic agree on every record; with a registry
also on the ids that it knows by then.

Spark's `from_json` alone takes the first of several objects in a value and ignores what follows,
turns an empty value into nulls and 1e400 into infinity; here each of these has a reason.

`dead_letters` makes records of those that have a reason, with headers that say what was wrong and
where the record came from: topic, partition and offset tell letters that were written twice.

Not here: what values should look like beyond their types (`rules.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.schema import HEADERS_TYPE

if TYPE_CHECKING:
    from barnabas_pipelines.registry.decoding import Reading

KEY_FIELDS: Final = "key_fields"
DECODED: Final = "decoded"
REASON: Final = "undecodable_reason"
_CORRUPT: Final = "__corrupt"
_TEXT: Final = "__text"
_FIRST_MS: Final = 0
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""


class ValueFormat(Enum):
    """What the bytes of a value are; text, numbers and raw ones are one field, `value`."""

    JSON = "json"
    TEXT = "text"
    NUMBER = "number"
    RAW = "raw"
    REGISTRY = "registry"


class TimeUnit(Enum):
    """What a number that is a time counts, since 1970."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"

    @property
    def milliseconds(self) -> float:
        """How long one is."""
        return {"s": 1000.0, "ms": 1.0, "us": 0.001}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """The field of the value that says when it happened.

    A number is one of `unit`; without a unit the field is a timestamp, or ISO 8601 text.
    """

    field: str
    ahead_ms_max: int
    unit: TimeUnit | None = None


def decode_values(
    records: DataFrame,
    value_format: ValueFormat,
    fields: DataType | None = None,
    reading: Reading | None = None,
) -> DataFrame:
    """The records with `decoded` and `undecodable_reason`; `fields` are those of JSON values.

    With a registry, `reading` says how values are read.
    JSON values must be one object each, and a field that is there must be of its type; a field that
    is not there is null. A record without a value is undecodable, except as raw bytes.
    """
    if value_format is ValueFormat.RAW:
        return records.withColumns(
            {DECODED: sql.struct(sql.col("value")), REASON: sql.lit(None).cast("string")}
        )
    if value_format is ValueFormat.REGISTRY:
        assert reading is not None
        return _decode_by_registry(records, reading)
    text = sql.col("value").cast("string")
    no_text = (
        sql.when(sql.col("value").isNull(), "the record has no value")
        .when(~sql.is_valid_utf8(text), "the value is not UTF-8")
        .otherwise(sql.lit(None).cast("string"))
    )
    if value_format is ValueFormat.JSON:
        if not isinstance(fields, StructType):
            raise OptionsError("the fields of JSON values must be named, each with its type")
        return _decode_json(records, text, no_text, fields)
    if value_format is ValueFormat.TEXT:
        return records.withColumns({DECODED: sql.struct(text.alias("value")), REASON: no_text})
    number = sql.expr("try_cast(trim(cast(value as string)) as double)")
    reason = sql.coalesce(
        no_text, sql.when(number.isNull() | _not_finite(number), "the value is no number")
    )
    return records.withColumns({DECODED: sql.struct(number.alias("value")), REASON: reason})


def decode_keys(records: DataFrame, reading: Reading) -> DataFrame:
    """Decoded records with `key_fields`; a key that cannot be decoded makes them undecodable.

    A record without a key has null for it.
    """
    fields, reason = _registry_columns(sql.col("key"), reading)
    wrong = sql.concat(sql.lit("the key cannot be decoded: "), reason)
    return records.withColumns({KEY_FIELDS: fields, REASON: sql.coalesce(sql.col(REASON), wrong)})


def with_event_time(
    records: DataFrame, source: EventTime | None = None, name: str = "event_time"
) -> DataFrame:
    """Decoded records with their event time: the record's timestamp, or what `source` says.

    A record without one is undecodable. So is one whose field is more than `ahead_ms_max` after the
    record's own timestamp: counted, it would move the watermark that far, and all records of the
    present would be dropped as late. Brokers limit in the same way how far the record's own
    timestamp may be ahead (`message.timestamp.after.max.ms`).
    """
    timestamp = sql.col("timestamp")
    if source is None:
        event_time = timestamp
        wrong = sql.when(
            timestamp.isNull() | (timestamp < sql.timestamp_seconds(sql.lit(0))),
            "the record has no timestamp",
        )
    else:
        event_time = _time_of(records, source)
        ahead_ms = sql.unix_millis(event_time) - sql.unix_millis(timestamp)
        field = source.field
        wrong = sql.when(event_time.isNull(), f"the field {field} has no time").when(
            ahead_ms > source.ahead_ms_max,
            f"the time in {field} is too far ahead of the record's timestamp",
        )
    return records.withColumn(name, event_time).withColumn(
        REASON, sql.coalesce(sql.col(REASON), wrong)
    )


def _time_of(records: DataFrame, source: EventTime) -> Column:
    """The field as a timestamp; null where it holds none, or one that calendars do not have."""
    field = field_column(source.field)
    if source.unit is None:
        return field.try_cast("timestamp")
    ms = sql.floor(field * source.unit.milliseconds).try_cast("bigint")
    return sql.timestamp_millis(sql.when(ms.between(_FIRST_MS, _LAST_MS), ms))


def with_text_key(records: DataFrame) -> DataFrame:
    """Decoded records whose key is needed as text; one that is no text makes them undecodable."""
    key = sql.col("key").cast("string")
    wrong = sql.when(sql.col("key").isNotNull() & ~sql.is_valid_utf8(key), "the key is not UTF-8")
    return records.withColumn(REASON, sql.coalesce(sql.col(REASON), wrong))


def field_column(path: str) -> Column:
    """A field of the decoded value, by its path."""
    return sql.col(".".join(f"`{part}`" for part in (DECODED, *path.split("."))))


def only_decodable(records: DataFrame) -> DataFrame:
    """The records without a reason."""
    return records.where(sql.col(REASON).isNull())


def only_undecodable(records: DataFrame) -> DataFrame:
    """The records with one."""
    return records.where(sql.col(REASON).isNotNull())


def refuse_undecodable(records: DataFrame, hint: str = "") -> DataFrame:
    """The same records; an action on them fails at the first that has a reason, and names it."""
    return refuse(records, sql.col(REASON), "undecodable record", hint)


def _registry_columns(column: Column, reading: Reading) -> tuple[Column, Column]:
    # Its libraries cost half a second, so that nobody else pays for them.
    from barnabas_pipelines.registry.columns import decoded

    return decoded(column, reading)


def _decode_by_registry(records: DataFrame, reading: Reading) -> DataFrame:
    fields, reason = _registry_columns(sql.col("value"), reading)
    wrong = sql.when(sql.col("value").isNull(), "the record has no value").otherwise(
        sql.concat(sql.lit("the value cannot be decoded: "), reason)
    )
    return records.withColumns({DECODED: fields, REASON: wrong})


def _decode_json(
    records: DataFrame, text: Column, no_text: Column, fields: StructType
) -> DataFrame:
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "allowNonNumericNumbers": "false",
        "allowSingleQuotes": "false",
        # Times without a zone are in UTC, whatever the session says.
        "timeZone": "UTC",
    }
    schema = StructType([*fields.fields]).add(_CORRUPT, "string")
    parsed = records.withColumn(_TEXT, text).withColumn(
        DECODED, sql.from_json(sql.col(_TEXT), schema, options)
    )
    corrupt = field_column(_CORRUPT)
    # An array made of the text has one element only if the text is one whole JSON value.
    values = sql.json_array_length(sql.concat(sql.lit("["), sql.col(_TEXT), sql.lit("]")))
    is_object = sql.ltrim(sql.col(_TEXT)).startswith("{")
    wrong = (
        sql.when(values.isNull(), "the value is not JSON")
        .when((values != 1) | ~is_object, "the value is not one JSON object")
        .when(corrupt.isNotNull(), "a field is not of its declared type, or the JSON is not strict")
    )
    for path in _floating_point_paths(fields):
        wrong = wrong.when(_not_finite(field_column(path)), f"the field {path} is not finite")
    return (
        parsed.withColumn(REASON, sql.coalesce(no_text, wrong))
        .withColumn(DECODED, sql.col(DECODED).dropFields(_CORRUPT))
        .drop(_TEXT)
    )


def _floating_point_paths(fields: StructType, parents: tuple[str, ...] = ()) -> list[str]:
    """The fields that could be infinite, also inside of structs."""
    paths: list[str] = []
    for field in fields.fields:
        path = (*parents, field.name)
        if isinstance(field.dataType, StructType):
            paths += _floating_point_paths(field.dataType, path)
        elif isinstance(field.dataType, (DoubleType, FloatType)):
            paths.append(".".join(path))
    return paths


def _not_finite(number: Column) -> Column:
    """Whether it is infinite or no number; null where it is null."""
    return sql.isnan(number) | (sql.abs(number) == float("inf"))


def refuse(records: DataFrame, reason: Column, what: str, hint: str = "") -> DataFrame:
    """The same records; one that has a reason makes any action on them fail.

    Also an action that needs no column of them, such as counting. Records that were read from a
    topic, or rows that were made of one record each, are named by their offset. A hint, such as
    the option that decides about it, stands behind the reason.
    """
    names = [name for name in ("topic", "partition", "offset") if name in records.columns]
    parts = [sql.lit(f"{what}: ")]
    for name in names:
        parts += [sql.lit(f"{name} "), sql.col(name).cast("string"), sql.lit(", ")]
    parts[-1] = sql.lit(": ")
    refusal = sql.raise_error(
        sql.concat(*parts, reason, sql.lit(f" ({hint})" if hint else ""))
    ).cast("boolean")
    return records.where(sql.when(reason.isNull(), sql.lit(True)).otherwise(refusal))


REASON_HEADER: Final = "barnabas.reason"
TOPIC_HEADER: Final = "barnabas.topic"
PARTITION_HEADER: Final = "barnabas.partition"
OFFSET_HEADER: Final = "barnabas.offset"
TIMESTAMP_HEADER: Final = "barnabas.timestamp"
"""The record's own, in milliseconds since 1970, as text like all of these."""


def dead_letters(records: DataFrame, reason: str = REASON) -> DataFrame:
    """The columns `key`, `value` and `headers` of all records given; `reason` names a column.

    The records were read with headers, or have none.
    """
    origin = sql.array(
        _header(REASON_HEADER, sql.col(reason)),
        _header(TOPIC_HEADER, sql.col("topic")),
        _header(PARTITION_HEADER, sql.col("partition")),
        _header(OFFSET_HEADER, sql.col("offset")),
        _header(TIMESTAMP_HEADER, sql.unix_millis("timestamp")),
    ).cast(HEADERS_TYPE)
    if "headers" in records.columns:
        origin = sql.concat(
            sql.coalesce(sql.col("headers"), sql.array().cast(HEADERS_TYPE)), origin
        )
    return records.select("key", "value", origin.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return sql.struct(
        sql.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")
    )

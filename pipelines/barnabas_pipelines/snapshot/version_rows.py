"""The rows of a version: the last version merged with newer records, decoded, written as Parquet.

Columns: key, value, partition, offset, timestamp, timestampType; headers, key_text, fields and
undecodable_reason where they are asked for. What is decoded is made anew from the bytes each time,
so that it may change from version to version.

Not here: which records are read (`ranges.py`), where versions are (`table.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from barnabas_pipelines import schema
from barnabas_pipelines.transforms.decoding import (
    DECODED,
    REASON,
    ValueFormat,
    decode_values,
    refuse_undecodable,
)
from barnabas_pipelines.transforms.latest import (
    MOVED,
    latest_per_key,
    merge,
    refuse_keyless,
    without_deletions,
)

_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType")
_HEADERS: Final = "headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """What a version is to have, and what may not be in it; `fields` are for JSON only."""

    value_format: ValueFormat
    fields: str | None
    has_text_key: bool
    has_headers: bool
    fails_on_undecodable: bool
    fails_on_keyless: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are of the records."""
        return (*_COLUMNS, _HEADERS) if self.has_headers else _COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCounts:
    """What a version has, and what became of the records that were read."""

    rows: int
    records: int
    keyless: int
    deletions: int
    moved: int
    undecodable: int

    def text(self) -> str:
        """One line; what is zero in a healthy topic is told only where it is not."""
        parts = [
            f"{self.rows:,} rows",
            f"{self.records:,} records read",
            f"{self.deletions:,} keys deleted",
        ]
        if self.keyless:
            parts.append(f"{self.keyless:,} records without a key left out")
        if self.moved:
            parts.append(f"{self.moved:,} keys found in more than one partition")
        if self.undecodable:
            parts.append(f"{self.undecodable:,} rows undecodable")
        return ", ".join(parts)


def write_version(
    spark: SparkSession,
    records: DataFrame | None,
    base: str | None,
    target: str,
    settings: RowSettings,
) -> VersionCounts:
    """Write the rows to a new folder; `records` are those to be read, `base` the last version.

    Raises: what Spark raises, also for records that are refused.
    """
    of_records, of_rows, of_table = (Observation(name) for name in ("records", "rows", "table"))
    rows = _merged(spark, records, base, settings, of_records).observe(
        of_rows,
        sql.count_if(sql.col("value").isNull()).alias("deletions"),
        sql.count_if(sql.col(MOVED)).alias("moved"),
    )
    table = _decoded(without_deletions(rows), settings)
    reason = sql.col(REASON) if REASON in table.columns else sql.lit(None)
    table.observe(of_table, sql.count_if(reason.isNotNull()).alias("undecodable")).write.parquet(
        target
    )
    read = {} if records is None else of_records.get
    return VersionCounts(
        rows=spark.read.parquet(target).count(),
        records=read.get("records", 0),
        keyless=read.get("keyless", 0),
        deletions=of_rows.get["deletions"],
        moved=of_rows.get["moved"],
        undecodable=of_table.get["undecodable"],
    )


def _merged(
    spark: SparkSession,
    records: DataFrame | None,
    base: str | None,
    settings: RowSettings,
    of_records: Observation,
) -> DataFrame:
    """The latest of each key with `moved`, deletions included."""
    old = None if base is None else spark.read.parquet(base).select(*settings.columns)
    if records is None:
        if old is None:
            ddl = schema.ddl(include_headers=settings.has_headers)
            old = spark.createDataFrame([], ddl).select(*settings.columns)
        return old.withColumn(MOVED, sql.lit(False))
    counted = records.observe(
        of_records,
        sql.count(sql.lit(1)).alias("records"),
        sql.count_if(sql.col("key").isNull()).alias("keyless"),
    )
    keyed = (
        refuse_keyless(counted, "--keyless says what else to do")
        if settings.fails_on_keyless
        else counted.where(sql.col("key").isNotNull())
    )
    changes = latest_per_key(keyed.select(*settings.columns))
    return changes if old is None else merge(old, changes)


def _decoded(rows: DataFrame, settings: RowSettings) -> DataFrame:
    """The rows with the columns that are wanted besides those of the records."""
    columns: list[Column] = [sql.col(name) for name in settings.columns]
    is_raw = settings.value_format is ValueFormat.RAW
    if settings.has_text_key:
        text = sql.col("key").cast("string")
        columns.append(sql.when(sql.is_valid_utf8(text), text).alias("key_text"))
    if is_raw:
        return rows.select(*columns)
    fields = None if settings.fields is None else StructType.fromDDL(settings.fields)
    decoded = decode_values(rows, settings.value_format, fields)
    if settings.fails_on_undecodable:
        decoded = refuse_undecodable(decoded, "--undecodable says what else to do")
    value = sql.when(sql.col(REASON).isNull(), sql.col(DECODED))
    return decoded.select(*columns, value.alias("fields"), REASON)

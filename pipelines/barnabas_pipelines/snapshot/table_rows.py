"""The rows of a snapshot: the latest record of each key, decoded, and how they get into the table.

Columns: key, value, partition, offset, timestamp, timestampType; headers, key_text, key_fields,
fields and undecodable_reason where they are wanted. The bytes are kept, so that what is decoded
can be made anew from them when it is to change: then the table is written over, else it is merged.

Not here: which records are read (`ranges.py`), the table's format (`tables/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from barnabas_pipelines import schema
from barnabas_pipelines.tables.marks import Mark
from barnabas_pipelines.tables.table import Table
from barnabas_pipelines.transforms.decoding import (
    DECODED,
    KEY_FIELDS,
    REASON,
    ValueFormat,
    decode_keys,
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
from barnabas_pipelines.transforms.once import read_once

if TYPE_CHECKING:
    from barnabas_pipelines.registry.decoding import Reading

_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "timestampType")
_HEADERS: Final = "headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """What the table is to have, and what may not be in it; `fields` are for JSON only."""

    value_format: ValueFormat
    fields: str | None
    has_text_key: bool
    has_headers: bool
    fails_on_undecodable: bool
    fails_on_keyless: bool
    value_reading: Reading | None = None
    key_reading: Reading | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are of the records."""
        return (*_COLUMNS, _HEADERS) if self.has_headers else _COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCounts:
    """What the table has, and what became of the records that were read."""

    rows: int
    records: int
    keyless: int
    deletions: int
    moved: int
    undecodable: int

    def text(self) -> str:
        """One line; what is zero in a healthy topic is shown only where it is not."""
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


class SnapshotWriter:
    """Brings a table up to date with records that were not in it."""

    def __init__(self, table: Table, settings: RowSettings) -> None:
        self._table = table
        self._settings = settings

    def merge(self, records: DataFrame, mark: Mark, check: Callable[[], None]) -> SnapshotCounts:
        """Replace, add and delete the keys of the records. See `write` for `check`."""
        settings = self._settings
        with self._changes(records) as (changes, read):
            check()
            moved = _moved(self._table.rows(), changes)
            live = _decoded(without_deletions(changes), settings)
            deletions = changes.where(sql.col("value").isNull()).select("key")
            rows = live.unionByName(deletions, allowMissingColumns=True)
            self._table.merge(rows, mark, "key", "new.value IS NULL")
            return self._counts(changes, read, moved)

    def write(
        self,
        records: DataFrame | None,
        mark: Mark,
        check: Callable[[], None],
        *,
        is_rebuilt: bool,
    ) -> SnapshotCounts:
        """Write the table over: from the records, if any, alone, or also from its own bytes.

        `check` is called when the records were read, before anything is written, and may raise.
        """
        settings = self._settings
        with self._changes(records) as (changes, read):
            check()
            base = None if is_rebuilt else self._table.rows().select(*settings.columns)
            latest = changes if base is None else merge(base, changes)
            moved = latest.where(MOVED).count()
            self._table.overwrite(_decoded(without_deletions(latest), settings), mark)
            return self._counts(changes, read, moved)

    def refresh(self, mark: Mark) -> None:
        """Say that the table is up to date."""
        self._table.append(self._table.rows().limit(0), mark, ())

    def _counts(self, changes: DataFrame, read: Row, moved: int) -> SnapshotCounts:
        table = self._table.rows()
        has_reason = REASON in table.columns
        return SnapshotCounts(
            rows=table.count(),
            records=read.records,
            keyless=read.keyless,
            deletions=changes.where(sql.col("value").isNull()).count(),
            moved=moved,
            undecodable=table.where(sql.col(REASON).isNotNull()).count() if has_reason else 0,
        )

    def _no_changes(self) -> DataFrame:
        spark = SparkSession.active()
        records = spark.createDataFrame([], schema.ddl(include_headers=self._settings.has_headers))
        return records.select(*self._settings.columns).withColumn(MOVED, sql.lit(False))

    @contextmanager
    def _changes(self, records: DataFrame | None) -> Iterator[tuple[DataFrame, Row]]:
        """The last record of each key, read by now, and the counts of what was read."""
        if records is None:
            yield self._no_changes(), Row(records=0, keyless=0)
            return
        of_records = Observation("records")
        counted = records.observe(
            of_records,
            sql.count(sql.lit(1)).alias("records"),
            sql.count_if(sql.col("key").isNull()).alias("keyless"),
        )
        keyed = (
            refuse_keyless(counted, "--keyless says what else to do")
            if self._settings.fails_on_keyless
            else counted.where(sql.col("key").isNotNull())
        )
        with read_once(latest_per_key(keyed.select(*self._settings.columns))) as kept:
            yield kept.rows, Row(**of_records.get)


def _moved(table: DataFrame, changes: DataFrame) -> int:
    """How many of the changed keys were found in more than one partition."""
    old = table.select(sql.col("key").alias("old_key"), sql.col("partition").alias("old"))
    joined = changes.join(old, sql.col("key") == sql.col("old_key"), "left")
    is_elsewhere = sql.coalesce(sql.col("partition") != sql.col("old"), sql.lit(False))
    return joined.where(sql.col(MOVED) | is_elsewhere).count()


def _decoded(rows: DataFrame, settings: RowSettings) -> DataFrame:
    """The rows with the columns that are wanted besides those of the records."""
    columns: list[Column] = [sql.col(name) for name in settings.columns]
    is_raw = settings.value_format is ValueFormat.RAW and settings.key_reading is None
    if settings.has_text_key:
        text = sql.col("key").cast("string")
        columns.append(sql.when(sql.is_valid_utf8(text), text).alias("key_text"))
    if is_raw:
        return rows.select(*columns)
    fields = None if settings.fields is None else StructType.fromDDL(settings.fields)
    decoded = decode_values(rows, settings.value_format, fields, settings.value_reading)
    if settings.key_reading is not None:
        decoded = decode_keys(decoded, settings.key_reading)
        is_good = sql.col(REASON).isNull()
        columns.append(sql.when(is_good, sql.col(KEY_FIELDS)).alias(KEY_FIELDS))
    if settings.fails_on_undecodable:
        decoded = refuse_undecodable(decoded, "--undecodable says what else to do")
    if settings.value_format is not ValueFormat.RAW:
        columns.append(sql.when(sql.col(REASON).isNull(), sql.col(DECODED)).alias("fields"))
    return decoded.select(*columns, REASON)

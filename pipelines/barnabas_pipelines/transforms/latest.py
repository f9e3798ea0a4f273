"""The latest value of each key: of some records, and of a table together with newer records.

A record without a value deletes its key. Within a partition the record with the highest offset
counts. A key belongs in one partition: compaction knows no other. Where it is found in several,
because partitions were added or producers disagree, offsets say nothing, and

- among the records of one range the newest timestamp wins, then the higher partition number;
- a newer range wins over the table: all of it was appended after the table was read.

Such keys are counted, in `moved`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from barnabas_pipelines.transforms.decoding import refuse

MOVED: Final = "moved"
_ROW: Final = "__row"
_CHANGE: Final = "__change"


def refuse_keyless(records: DataFrame, hint: str = "") -> DataFrame:
    """The same records; an action on them fails at the first that has no key, and names it."""
    reason = sql.when(sql.col("key").isNull(), "a table of latest values needs keys")
    return refuse(records, reason, "record without a key", hint)


def latest_per_key(records: DataFrame) -> DataFrame:
    """The last record of each key, deletions included, with all its columns and `moved`.

    `moved` says whether the key was found in more than one partition.
    """
    rest = sql.struct(*(sql.col(name) for name in records.columns if name != "key"))
    per_partition = records.groupBy("key", "partition").agg(sql.max_by(rest, "offset").alias(_ROW))
    newest = sql.max_by(_ROW, sql.struct(f"{_ROW}.timestamp", "partition"))
    return (
        per_partition.groupBy("key")
        .agg(newest.alias(_ROW), (sql.count(sql.lit(1)) > 1).alias(MOVED))
        .select(*_columns(_ROW, records.columns), MOVED)
    )


def merge(table: DataFrame, changes: DataFrame) -> DataFrame:
    """The table after the changes of `latest_per_key`: replaced, added, and deleted rows and all.

    Deletions stay in as rows without a value, so that they can be counted; `without_deletions`
    removes them. Of the columns those of the table remain, and `moved`.
    """
    names = table.columns
    old = table.select(sql.col("key").alias("__old_key"), sql.struct(*names).alias(_ROW))
    change = sql.struct(*names, MOVED)
    new = changes.select(sql.col("key").alias("__new_key"), change.alias(_CHANGE))
    joined = old.join(new, sql.col("__old_key") == sql.col("__new_key"), "full_outer")
    is_changed = sql.col(_CHANGE).isNotNull()
    is_elsewhere = sql.col(f"{_CHANGE}.partition") != sql.col(f"{_ROW}.partition")
    moved = sql.col(f"{_CHANGE}.{MOVED}") | sql.coalesce(is_elsewhere, sql.lit(False))
    return joined.select(
        *(
            sql.when(is_changed, sql.col(f"{_CHANGE}.`{name}`"))
            .otherwise(sql.col(f"{_ROW}.`{name}`"))
            .alias(name)
            for name in names
        ),
        sql.coalesce(moved, sql.lit(False)).alias(MOVED),
    )


def without_deletions(latest: DataFrame) -> DataFrame:
    """The rows that have a value, without `moved`: what a table keeps."""
    return latest.where(sql.col("value").isNotNull()).drop(MOVED)


def _columns(row: str, names: Sequence[str]) -> list[Column]:
    return [sql.col(name) if name == "key" else sql.col(f"{row}.`{name}`") for name in names]

"""Records counted and measured over time and partitions, by Spark: DataFrame to few rows."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from barnabas_pipelines.lag.findings import BucketRow, Hole
from barnabas_pipelines.schema import HEADERS_TYPE

HOLES_MAX_PER_TOPIC = 100


def bucket_rows(records: DataFrame, bucket_ms: int) -> list[BucketRow]:
    """One row for each topic, partition and stretch of time in which records came.

    The records were read with headers.
    """
    start = sql.floor(sql.unix_millis("timestamp") / bucket_ms) * bucket_ms
    rows = (
        records.groupBy("topic", "partition", start.cast("bigint").alias("start_ms"))
        .agg(
            sql.count("*"),
            sql.sum(_size()),
            sql.min("offset"),
            sql.max("offset"),
        )
        .collect()
    )
    return [
        BucketRow(
            topic=row[0],
            partition=row[1],
            start_ms=row[2] or 0,
            record_count=row[3],
            size_bytes=row[4] or 0,
            first_offset=row[5],
            last_offset=row[6],
        )
        for row in rows
    ]


def widest_holes(records: DataFrame, topics: Iterable[str]) -> dict[str, list[Hole]]:
    """The widest stretches of offsets without records between records, by topic."""
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    widest = Window.partitionBy("topic").orderBy(sql.desc(sql.col("offset") - sql.col("first")))
    rows = (
        records.where(sql.col("topic").isin(list(topics)))
        .select("topic", "partition", "offset")
        .withColumn("first", sql.lag("offset").over(in_order) + 1)
        .where(sql.col("offset") > sql.col("first"))
        .withColumn("place", sql.row_number().over(widest))
        .where(sql.col("place") <= HOLES_MAX_PER_TOPIC)
        .collect()
    )
    found: dict[str, list[Hole]] = {}
    for row in rows:
        hole = Hole(partition=row["partition"], first=row["first"], end=row["offset"])
        found.setdefault(row["topic"], []).append(hole)
    return found


def _size() -> Column:
    headers = sql.aggregate(
        sql.coalesce("headers", sql.array().cast(HEADERS_TYPE)),
        sql.lit(0).cast("bigint"),
        lambda sum_so_far, header: (
            sum_so_far
            + sql.octet_length(header["key"])
            + sql.coalesce(sql.octet_length(header["value"]), sql.lit(0))
        ),
    )
    parts = [sql.coalesce(sql.octet_length(name), sql.lit(0)) for name in ("key", "value")]
    return parts[0] + parts[1] + headers

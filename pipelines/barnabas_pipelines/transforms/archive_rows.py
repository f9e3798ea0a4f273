"""Records as an archive keeps them, and what an archive lacks or has twice.

    key, value, headers, topic, partition, offset, timestamp, timestampType, dt

`dt` is the day of the record's timestamp in UTC, whatever the session's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

COLUMNS: Final = (
    "key",
    "value",
    "headers",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)
DAY: Final = "dt"
SCHEMA: Final = (
    "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string, "
    "partition int, offset bigint, timestamp timestamp, timestampType int, dt string"
)
"""How an archive is read: the day stays text, as records may claim days that no calendar has."""

_DAY_MICROSECONDS: Final = 86_400_000_000


def archive_rows(records: DataFrame) -> DataFrame:
    """The records of a source with headers, with the day that they belong to."""
    micros, length = sf.unix_micros("timestamp"), sf.lit(_DAY_MICROSECONDS)
    day = ((micros - sf.pmod(micros, length)) / length).cast("int")  # exact: nothing remains
    return records.select(*COLUMNS, sf.date_from_unix_date(day).cast("string").alias(DAY))


def not_archived(records: DataFrame, ends: Mapping[str, Mapping[int, int]]) -> DataFrame:
    """The records at and behind the ends: by topic and partition, what an archive has not yet."""
    condition: Column = sf.lit(True)
    for topic, found in ends.items():
        # By position, because looking through a map costs a comparison per partition and record.
        by_partition = [found.get(partition, 0) for partition in range(max(found, default=-1) + 1)]
        if not by_partition:
            continue
        reached = sf.get(sf.array(*map(sf.lit, by_partition)), sf.col("partition"))
        is_new = sf.col("offset") >= sf.coalesce(reached, sf.lit(0))
        condition = condition & ((sf.col("topic") != topic) | is_new)
    return records.where(condition)


def archive_census(archive: DataFrame) -> DataFrame:
    """Per topic and partition: first and last offset, records, different offsets.

    More records than different offsets are duplicates; fewer different offsets than lie between
    the first and the last are gaps, which are normal in compacted and transactional topics.
    """
    return archive.groupBy("topic", "partition").agg(
        sf.min("offset").alias("first_offset"),
        sf.max("offset").alias("last_offset"),
        sf.count("offset").alias("record_count"),
        sf.count_distinct("offset").alias("offset_count"),
    )

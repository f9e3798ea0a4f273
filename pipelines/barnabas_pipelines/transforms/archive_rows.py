"""Records as an archive keeps them, and what an archive lacks or has twice.

    key, value, headers, topic, partition, offset, timestamp, timestampType, dt

`dt` is the day of the record's timestamp in UTC, whatever the session's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from barnabas_pipelines.replay.selection import Selection

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


def chosen(archive: DataFrame, selection: Selection) -> DataFrame:
    """The rows of an archive that were chosen."""
    rows = archive.where(sf.col("topic") == selection.topic)
    moment = sf.unix_millis("timestamp")
    if selection.from_ms is not None:
        rows = rows.where(moment >= selection.from_ms)
    if selection.to_ms is not None:
        rows = rows.where(moment < selection.to_ms)
    if selection.partitions is not None:
        rows = rows.where(sf.col("partition").isin(sorted(selection.partitions)))
    if selection.offsets:
        condition = sf.lit(False)
        for partition, (first, end) in selection.offsets.items():
            part = (sf.col("partition") == partition) & (sf.col("offset") >= first)
            condition = condition | (part if end is None else part & (sf.col("offset") < end))
        rows = rows.where(condition)
    return rows


def with_target_partition(records: DataFrame, partition_count: int, *, by_key: bool) -> DataFrame:
    """The records with `target`: their own partition, or the one that Kafka's hash of the key says.

    Without a key it is the record's own, wrapped around, so that the choice is the same each time.
    """
    own = sf.col("partition")
    if not by_key:
        return records.withColumn("target", own)

    @sf.arrow_udf("int")  # type: ignore[attr-defined]
    def hashed(keys: pa.Array) -> pa.Array:
        """Return where producers send keys; -1 for none."""
        from barnabas_client.producer.key_columns import partitions_of_keys

        return pa.array(partitions_of_keys(keys, partition_count))

    by_hash = hashed(sf.col("key"))
    wrapped = sf.pmod(own, sf.lit(partition_count))
    return records.withColumn("target", sf.when(by_hash >= 0, by_hash).otherwise(wrapped))

"""Records as an archive keeps them, and those of them that are chosen.

    key, value, headers, topic, topic_id, partition, leader_epoch, offset, timestamp, timestampType,
    dt

`dt` is the day of the record's timestamp in UTC, whatever the session's time zone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from barnabas_pipelines.replay.selection import Selection
from barnabas_pipelines.tables.marks import TopicReach

DAY: Final = "dt"
PARTITIONED_BY: Final = ("topic", DAY)
LEADER_EPOCH: Final = "leader_epoch"
"""Null where a source does not have it; Spark's connector does not."""

_DAY_MICROSECONDS: Final = 86_400_000_000


def archive_rows(records: DataFrame, topic_ids: Mapping[str, str | None]) -> DataFrame:
    """The records of a source with headers, with their topic's id and the day that they belong to.

    The day is text, as records may claim days that no calendar has.
    """
    micros, length = sf.unix_micros("timestamp"), sf.lit(_DAY_MICROSECONDS)
    day = ((micros - sf.pmod(micros, length)) / length).cast("int")  # exact: nothing remains
    topic_id: Column = sf.lit(None).cast("string")
    for topic, known in topic_ids.items():
        topic_id = sf.when(sf.col("topic") == topic, sf.lit(known)).otherwise(topic_id)
    has_epochs = LEADER_EPOCH in records.columns
    epoch = sf.col(LEADER_EPOCH) if has_epochs else sf.lit(None).cast("int")
    return records.select(
        "key",
        "value",
        "headers",
        "topic",
        topic_id.alias("topic_id"),
        "partition",
        epoch.alias(LEADER_EPOCH),
        "offset",
        "timestamp",
        "timestampType",
        sf.date_from_unix_date(day).cast("string").alias(DAY),
    )


def reach_of_rows(archive: DataFrame) -> tuple[TopicReach, ...]:
    """How far an archive reaches, by the rows themselves."""
    found = (
        archive.groupBy("topic", "topic_id", "partition")
        .agg(sf.min("offset").alias("first"), sf.max("offset").alias("last"))
        .collect()
    )
    topics = sorted({(row.topic, row.topic_id) for row in found}, key=lambda one: one[0])
    return tuple(
        TopicReach(
            name=topic,
            topic_id=topic_id,
            starts={row.partition: row.first for row in found if row.topic == topic},
            ends={row.partition: row.last + 1 for row in found if row.topic == topic},
        )
        for topic, topic_id in topics
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

"""Records that could not be used, as records of a dead-letter topic: as they came, and why.

Key, value and headers stay as they are, so that a letter can be sent again; further headers say
what was wrong and where the record came from. Topic, partition and offset together tell which
letters are the same one, written twice after a failure.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from barnabas_pipelines.transforms.decoding import REASON

REASON_HEADER: Final = "barnabas.reason"
TOPIC_HEADER: Final = "barnabas.topic"
PARTITION_HEADER: Final = "barnabas.partition"
OFFSET_HEADER: Final = "barnabas.offset"
TIMESTAMP_HEADER: Final = "barnabas.timestamp"
"""The record's own, in milliseconds since 1970, as text like all of these."""

_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


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
    ).cast(_HEADERS_TYPE)
    if "headers" in records.columns:
        origin = sql.concat(
            sql.coalesce(sql.col("headers"), sql.array().cast(_HEADERS_TYPE)), origin
        )
    return records.select("key", "value", origin.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return sql.struct(
        sql.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")
    )

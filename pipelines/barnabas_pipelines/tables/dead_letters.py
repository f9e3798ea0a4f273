"""A table of records that could not be used: as they came, where they came from, and why.

Each record is in it once, by topic, topic id, partition and offset, however often a batch is judged
again: what the table has already is left out, and the commit is refused if another job has written
in between; then it is looked at again. So several jobs may share a table.

    topic, topic_id, partition, offset, timestamp, timestampType, key, value, headers, rules, reason
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

from barnabas_pipelines.tables.marks import Mark
from barnabas_pipelines.tables.table import SecondWriterError, Table
from barnabas_pipelines.transforms.once import read_once
from barnabas_pipelines.transforms.rules import BROKEN, JUDGEMENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KIND: Final = "quality"
_PARTITIONED_BY: Final = ("topic",)
_ATTEMPTS: Final = 20
_PLACE: Final = ("topic", "topic_id", "partition", "offset")


class DeadLetterTable:
    """Adds judged records to a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, judged: DataFrame, topic_id: str | None) -> None:
        """Add the records of one topic that are not there yet.

        Raises: TableChangedError if it is another job's table, SecondWriterError after many tries.
        """
        with read_once(_rows(judged, topic_id)) as kept:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    self._add(kept.rows)
                    return
                except SecondWriterError:
                    if attempt == _ATTEMPTS:
                        raise

    def _add(self, rows: DataFrame) -> None:
        state = self._table.state()
        state.check_kind(KIND)
        new = rows if state.version < 0 else self._missing(rows, state.version)
        if new.isEmpty():
            return
        sequence = state.sequence + 1
        mark = Mark(
            kind=KIND, sequence=sequence, attempt=uuid.uuid4().hex, topics=(), base=state.version
        )
        self._table.append(new, mark, _PARTITIONED_BY)

    def _missing(self, rows: DataFrame, version: int) -> DataFrame:
        """The rows that the table lacks; only their range of offsets is read."""
        bounds = rows.agg(
            sql.first("topic").alias("topic"),
            sql.min("offset").alias("first"),
            sql.max("offset").alias("last"),
        ).head()
        assert bounds is not None
        known = (
            self._table.rows(version)
            .where(sql.col("topic") == sql.lit(bounds.topic))
            .where(sql.col("offset").between(bounds.first, bounds.last))
            .select(*[sql.col(name).alias(f"known_{name}") for name in _PLACE])
        )
        same = sql.lit(True)
        for name in _PLACE:
            same = same & sql.col(name).eqNullSafe(sql.col(f"known_{name}"))
        return rows.join(known, same, "left_anti")


def _rows(judged: DataFrame, topic_id: str | None) -> DataFrame:
    return judged.select(
        "topic",
        sql.lit(topic_id).cast("string").alias("topic_id"),
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "key",
        "value",
        "headers",
        sql.col(BROKEN).alias("rules"),
        sql.col(JUDGEMENT).alias("reason"),
    )

"""Hands the rows of a frame to the tasks of a replay, one Spark partition each.

A data source of our own that can only write: Spark gives such a one the rows as Arrow batches,
which its other ways do only where pandas is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from barnabas_pipelines.replay.task import ReplayTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

NAME: Final = "barnabas_replay"


@dataclass(frozen=True, slots=True)
class SentRows(WriterCommitMessage):
    """What a task tells when all of its rows are acknowledged."""

    count: int


class ReplayWriter(DataSourceArrowWriter):
    """Pickled to the workers."""

    def __init__(self, task: ReplayTask) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one partition of the target."""
        return SentRows(self._task.send(iterator))


def send_rows(rows: DataFrame, task: ReplayTask) -> None:
    """Send a frame whose Spark partitions have rows of one partition of the target each."""

    class ReplaySink(DataSource):
        """Knows its task by itself, so that no setting of it stands in Spark's plans."""

        @classmethod
        def name(cls) -> str:
            """Return what the format is called."""
            return NAME

        def writer(self, schema: StructType, overwrite: bool) -> ReplayWriter:
            """Return who writes."""
            return ReplayWriter(task)

    rows.sparkSession.dataSource.register(ReplaySink)
    rows.write.format(NAME).mode("append").save()

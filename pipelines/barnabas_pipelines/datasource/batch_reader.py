"""A batch read: the driver cuts it into ranges once, workers read them.

Every action on a DataFrame plans anew, as with the connector: `latest` is then later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas_pipelines.datasource.cluster_view import ClusterView, ReadSettings
from barnabas_pipelines.datasource.positions import ending_offsets, starting_offsets
from barnabas_pipelines.errors import DataLossError, PipelineError, with_plain_errors
from barnabas_pipelines.offsets import OffsetRange, ReadPlan, loss_text, plan_ranges, split
from barnabas_pipelines.options import Options

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger(__name__)


class BarnabasBatchReader(DataSourceReader):
    """Reads from the starting to the ending offsets; pickled to the workers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._settings = ReadSettings.of(options)

    @with_plain_errors
    def partitions(self) -> list[InputPartition]:
        """One per range; called in the driver.

        Raises: OptionsError, DataLossError, TopicGoneError, UnreachableError.
        """
        view = ClusterView(self._options)
        now = view.log_view()
        start = starting_offsets(self._options, now, view)
        end = ending_offsets(self._options, now, view)
        plan = plan_ranges(start, end, now, has_fixed_ends=True)
        return input_partitions(plan, self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The records of one range; called in a worker."""
        return read_partition(partition, self._settings)


def input_partitions(plan: ReadPlan, options: Options) -> list[InputPartition]:
    """What Spark makes tasks of.

    Raises: DataLossError if something is gone and failOnDataLoss is set.
    """
    if plan.losses:
        if options["failOnDataLoss"]:
            raise DataLossError(loss_text(plan.losses, is_fatal=True))
        _log.warning("%s", loss_text(plan.losses, is_fatal=False))
    pieces = split(
        plan.ranges,
        min_partitions=options["minPartitions"],
        max_records=options["maxRecordsPerPartition"],
    )
    return [InputPartition(piece) for piece in pieces]


def read_partition(
    partition: InputPartition, settings: ReadSettings
) -> Iterator[pyarrow.RecordBatch]:
    """The records of one range; of nothing, if Spark made a partition of nothing."""
    # Not at the top: planning needs no consumer.
    from barnabas_pipelines.datasource.partition_read import read_range

    if not isinstance(partition.value, OffsetRange):
        return
    try:
        yield from read_range(partition.value, settings)
    except PipelineError as error:
        raise error.with_traceback(None) from None

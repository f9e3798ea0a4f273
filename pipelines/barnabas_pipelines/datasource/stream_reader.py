"""A streaming read: offsets for Spark's checkpoint, how far the next batch goes, and its ranges.

All but `read` runs in one Python process beside the driver; what it keeps there (targets, times,
the last offsets seen) is never needed after a restart. Where the query began is in the checkpoint
(`offsets.py`).

Source: pyspark's data source API of 4.2 (admission control, AvailableNow); where Spark's Kafka
connector has a rule, it is followed: new partitions begin at offset 0, a partition that is gone is
a loss, `minOffsetsPerTrigger` waits for no longer than `maxTriggerDelay` and not at the start.

Invariants: a batch that is planned again after a restart has the same ranges, less what is gone by
then; with AvailableNow nothing behind the ends of the beginning is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas_client.env import Clock, SystemClock
from barnabas_pipelines.datasource.batch_reader import input_partitions, read_partition
from barnabas_pipelines.datasource.cluster_view import ClusterView, ReadSettings
from barnabas_pipelines.datasource.positions import starting_offsets
from barnabas_pipelines.errors import DataLossError, with_plain_errors
from barnabas_pipelines.offsets import (
    LogView,
    Loss,
    StreamOffsets,
    backlog,
    begins,
    end_json,
    find_losses,
    initial_json,
    limit_end,
    loss_text,
    plan_ranges,
    start_of_batch,
    with_unseen,
)
from barnabas_pipelines.options import Options

if TYPE_CHECKING:
    import pyarrow

_log = logging.getLogger(__name__)


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver and reads ranges in workers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._settings = ReadSettings.of(options)
        self._driver: StreamDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Workers get what they need to read."""
        return {"_options": self._options, "_settings": self._settings, "_driver": None}

    @with_plain_errors
    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins; the same at every call."""
        return initial_json(self._in_driver.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options allow for one batch."""
        most, least = self._options["maxOffsetsPerTrigger"], self._options["minOffsetsPerTrigger"]
        if most is not None:
            return ReadMaxRows(most)
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    @with_plain_errors
    def prepareForTriggerAvailableNow(self) -> None:
        """Take the present ends as those of the whole query."""
        self._in_driver.fix_target()

    @with_plain_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_unlimited = isinstance(limit, ReadAllAvailable)
        end = self._in_driver.next_end(
            StreamOffsets.from_json(start),
            most=most,
            least=None if is_unlimited else self._options["minOffsetsPerTrigger"],
        )
        return end_json(start, end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends as they were last seen, for the query's progress."""
        latest = self._in_driver.latest
        return None if latest is None else latest.to_json()

    @with_plain_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of one batch."""
        now = self._in_driver.look()
        begin = start_of_batch(start, end)
        plan = plan_ranges(begin, StreamOffsets.from_json(end), now)
        return input_partitions(plan, self._options)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """The records of one range; called in a worker."""
        return read_partition(partition, self._settings)

    @property
    def _in_driver(self) -> StreamDriver:
        if self._driver is None:
            self._driver = StreamDriver(self._options, ClusterView(self._options), SystemClock())
        return self._driver


class StreamDriver:
    """What the process beside the driver knows of one query."""

    def __init__(self, options: Options, view: ClusterView, clock: Clock) -> None:
        self._options = options
        self._view = view
        self._clock = clock
        self._initial: StreamOffsets | None = None
        self._target: StreamOffsets | None = None
        self._told: tuple[Loss, ...] = ()
        # When the last batch was allowed; None before the first one.
        self._triggered_at_ms: int | None = None
        #: The ends as they were last seen.
        self.latest: StreamOffsets | None = None

    def initial(self) -> StreamOffsets:
        """Where the options say to begin; looked up once."""
        if self._initial is None:
            now = self._view.log_view()
            self._initial = starting_offsets(self._options, now, self._view)
        return self._initial

    def look(self) -> LogView:
        """The partitions there are now; one that is gone is missing."""
        return self._view.log_view(may_be_missing=True)

    def fix_target(self) -> None:
        """Nothing behind the present ends is to be read."""
        self._target = self.look().ends

    def next_end(
        self, start: StreamOffsets, *, most: int | None, least: int | None
    ) -> StreamOffsets:
        """Where the batch after `start` ends.

        Raises: DataLossError if records are gone and failOnDataLoss is set.
        """
        now = self.look()
        self.latest = now.ends
        self._judge(find_losses(start, now))
        begin = begins(start, now)
        end = self._within_target(start, now.ends)
        waiting = sum(backlog(begin, end).values())
        if least is not None and self._target is None and not self._is_due(waiting, least):
            return start
        self._triggered_at_ms = self._clock.monotonic_ms()
        return with_unseen(end if most is None else limit_end(begin, end, most), start, now)

    def _within_target(self, start: StreamOffsets, ends: StreamOffsets) -> StreamOffsets:
        """The ends, or those that were fixed at the beginning if they are earlier."""
        target = self._target
        if target is None:
            return ends
        offsets = {}
        for partition, end in ends.offsets.items():
            is_known = partition in start.offsets and ends.is_same_topic(start, partition.topic)
            done = start.offsets[partition] if is_known else 0
            if partition in target.offsets and ends.is_same_topic(target, partition.topic):
                offsets[partition] = min(end, max(done, target.offsets[partition]))
            elif is_known:
                offsets[partition] = done
        return StreamOffsets(offsets=offsets, topic_ids=ends.topic_ids)

    def _is_due(self, waiting: int, least: int) -> bool:
        if waiting >= least or self._triggered_at_ms is None:
            return True
        waited_ms = self._clock.monotonic_ms() - self._triggered_at_ms
        return waited_ms >= self._options["maxTriggerDelay"]

    def _judge(self, losses: tuple[Loss, ...]) -> None:
        if not losses:
            return
        if self._options["failOnDataLoss"]:
            raise DataLossError(loss_text(losses, is_fatal=True))
        if losses != self._told:
            self._told = losses
            _log.warning("%s", loss_text(losses, is_fatal=False))

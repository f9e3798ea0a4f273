"""Runs a replay: begins or goes on, hands rows to tasks, and checks the target at the end.

Not here: what a task does (`task.py`), what is remembered (`state.py`), the options
(`jobs/replay.py`). Needs pyspark.

Invariants: the state is written before the first record is sent, once, whoever else runs; it is
marked as done only when the target has all that it was to get.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from barnabas_client.errors import BarnabasError
from barnabas_pipelines.errors import OptionsError, PipelineError
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.replay.selection import Selection
from barnabas_pipelines.replay.state import FILE_NAME, ReplayState, parse_state
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.replay.task import ReplayTask, task_rate
from barnabas_pipelines.sources import make_active
from barnabas_pipelines.storage.file_store import FileStore
from barnabas_pipelines.tables.table import Table
from barnabas_pipelines.transforms.archive_rows import chosen, with_target_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PROGRESS_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What somebody wants replayed; `archive` and `checkpoint` are the names that they gave."""

    archive: str
    checkpoint: str
    target: Target
    selection: Selection
    is_by_key: bool
    records_per_second: float | None

    def requested(self) -> dict[str, Any]:
        """What must be the same when the replay goes on."""
        return {
            "path": self.archive,
            "target": self.target.topic,
            "by_key": self.is_by_key,
            **self.selection.to_json(),
        }


class Replay:
    """One run of a replay."""

    def __init__(
        self,
        request: ReplayRequest,
        spark: SparkSession,
        report: Report,
        table: Table,
        checkpoint: FileStore,
    ) -> None:
        self._request = request
        self._spark = spark
        self._report = report
        self._table = table
        self._checkpoint = checkpoint
        self._target = request.target

    def run(self) -> None:
        """Begin, or go on, with one version of the archive; returns when all is there."""
        topic_id = self._target_id()
        text = self._checkpoint.read(FILE_NAME)
        begun = self._begin(topic_id) if text is None else None
        if begun is not None:
            state, rows = begun
            present = dict.fromkeys(state.counts, 0)
        else:
            state = parse_state(text or self._checkpoint.read(FILE_NAME) or "")
            state.check_same(self._request.requested(), topic_id, self._request.checkpoint)
            if state.is_done:
                self._report.line(f"done before: {state.record_count:,} records")
                return
            # Its rows may be others: leaving out as many as are there would lose and double some.
            state.check_table(self._table.state().table_id, self._request.checkpoint)
            rows = self._rows(state.version, len(state.counts))
            present = self._target.sent(state.replay_id)
            state.check_sent(present)
            count = sum(present.values())
            self._report.line(f"goes on behind {count:,} of {state.record_count:,} records")
        try:
            self._send(state, rows, present)
            self._finish(state)
        except Exception:
            # Whatever is missing, in a topic that was made anew that is no wonder.
            self._check_target(state)
            raise

    def _target_id(self) -> str | None:
        return self._target.cluster.topic_ids([self._target.topic])[self._target.topic]

    def _check_target(self, state: ReplayState) -> None:
        state.check_target(self._target_id(), self._request.checkpoint)

    def _begin(self, topic_id: str | None) -> tuple[ReplayState, DataFrame] | None:
        """Fix what is to be replayed, before anything is sent; None if another run just did."""
        table = self._table.state()
        partitions = range(self._target.cluster.partition_count(self._target.topic))
        rows = self._rows(table.version, len(partitions))
        counts = {row[0]: row[1] for row in rows.groupBy("target").count().collect()}
        missing = sorted(set(counts) - set(partitions))
        if missing:
            raise OptionsError(
                f"the target {self._target.topic} has {len(partitions)} partitions, but there are "
                f"records for partition {missing[-1]}: add partitions to it, or use "
                "--partitioning key"
            )
        state = ReplayState(
            requested=self._request.requested(),
            topic_id=topic_id,
            table_id=table.table_id,
            version=table.version,
            replay_id=secrets.token_hex(8),
            counts={partition: counts.get(partition, 0) for partition in partitions},
        )
        # Before the state is there: whoever finds a state may rely on the progress.
        self._target.begin(state.replay_id, partitions)
        if not self._checkpoint.create(FILE_NAME, state.to_json()):
            # Both would send everything, each under an id of its own.
            return None
        self._report.line(f"{state.record_count:,} records are chosen")
        return state, rows

    def _rows(self, version: int, partition_count: int) -> DataFrame:
        records = chosen(self._table.rows(version), self._request.selection)
        return with_target_partition(records, partition_count, by_key=self._request.is_by_key)

    def _send(self, state: ReplayState, rows: DataFrame, present: Mapping[int, int]) -> None:
        open_partitions = [one for one, count in state.counts.items() if present[one] < count]
        if not open_partitions:
            return
        rate = self._request.records_per_second
        slots = self._spark.sparkContext.defaultParallelism
        task = ReplayTask(
            target=self._target,
            replay_id=state.replay_id,
            records_per_second=task_rate(rate, len(open_partitions), slots) if rate else None,
        )
        ordered = (
            rows.where(rows.target.isin(open_partitions))
            .repartitionById(len(state.counts), "target")
            .sortWithinPartitions("partition", "offset")
            .selectExpr("key", "value", "headers", "timestamp", "target AS partition")
        )
        with _Watch(self._target, state, self._report):
            send_rows(ordered, task)

    def _finish(self, state: ReplayState) -> None:
        """Compare what the target has got with what it was to get. Raises: PipelineError."""
        settled = self._target.settled(state.replay_id)
        state.check_sent(settled)
        lacking = state.record_count - sum(settled.values())
        if lacking:
            raise PipelineError(f"{lacking:,} records are missing in {self._target.topic}")
        self._check_target(state)
        self._checkpoint.write(FILE_NAME, replace(state, is_done=True).to_json())
        self._report.line(f"done: {state.record_count:,} records are in {self._target.topic}")


class _Watch:
    """Tells now and then how much the target has got, while tasks send."""

    def __init__(self, target: Target, state: ReplayState, report: Report) -> None:
        self._target = target
        self._state = state
        self._report = report
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="replay-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_PROGRESS_SECONDS):
            try:
                sent = sum(self._target.sent(self._state.replay_id).values())
            except (PipelineError, BarnabasError):
                continue  # the error of the tasks says what is wrong
            self._report.amount(sent, self._state.record_count)


NAME: Final = "barnabas_replay"


class ReplayWriter(DataSourceArrowWriter):
    """Pickled to the workers."""

    def __init__(self, task: ReplayTask) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one partition of the target."""
        self._task.send(iterator)
        return WriterCommitMessage()


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

    make_active(rows.sparkSession)
    rows.sparkSession.dataSource.register(ReplaySink)
    rows.write.format(NAME).mode("append").save()

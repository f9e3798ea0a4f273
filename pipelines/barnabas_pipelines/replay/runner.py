"""Runs a replay: begins or goes on, hands rows to tasks, and checks the target at the end.

Not here: what a task does (`task.py`), what is remembered (`state.py`), the options
(`jobs/replay.py`). Needs pyspark.

Invariants: the state is written before the first record is sent, and marked as done only when the
target has exactly what it was to get.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from barnabas_pipelines.errors import OptionsError, PipelineError
from barnabas_pipelines.jobs.progress_bar import Report
from barnabas_pipelines.replay.pace import task_rate
from barnabas_pipelines.replay.selection import Selection
from barnabas_pipelines.replay.sink import send_rows
from barnabas_pipelines.replay.state import FILE_NAME, ReplayState, parse_state
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.replay.task import ReplayTask
from barnabas_pipelines.storage.file_store import FileStore
from barnabas_pipelines.tables.table import Table
from barnabas_pipelines.transforms.archive_rows import chosen, with_target_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PROGRESS_SECONDS: Final = 2.0
_BASE_QUIET_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What somebody wants replayed; `archive` and `checkpoint` are the names that they gave."""

    archive: str
    checkpoint: str
    target: Target
    selection: Selection
    is_by_key: bool
    records_per_second: float | None
    settle_ms: int

    def asked(self) -> dict[str, Any]:
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
        topic_id = self._target.cluster.topic_ids([self._target.topic])[self._target.topic]
        text = self._checkpoint.read(FILE_NAME)
        if text is None:
            state, rows = self._begin(topic_id)
            ends: Mapping[int, int] = state.bases
        else:
            state = parse_state(text)
            state.check_same(self._request.asked(), topic_id, self._request.checkpoint)
            if state.is_done:
                self._report.line(f"done before: {state.record_count:,} records")
                return
            rows = self._rows(state.version, len(state.bases))
            ends = self._target.settled_ends(self._request.settle_ms)
            present = sum(state.sent(ends).values())
            self._report.line(f"goes on behind {present:,} of {state.record_count:,} records")
        self._send(state, rows, ends)
        self._finish(state)

    def _begin(self, topic_id: str | None) -> tuple[ReplayState, DataFrame]:
        """Fix what is to be replayed, before anything is sent."""
        version = self._table.state().version
        ends = self._target.settled_ends(_BASE_QUIET_MS)
        rows = self._rows(version, len(ends))
        counts = {row[0]: row[1] for row in rows.groupBy("target").count().collect()}
        missing = sorted(set(counts) - set(ends))
        if missing:
            raise OptionsError(
                f"the target {self._target.topic} has {len(ends)} partitions, but there are "
                f"records for partition {missing[-1]}: add partitions to it, or use "
                "--partitioning key"
            )
        state = ReplayState(
            asked=self._request.asked(),
            topic_id=topic_id,
            version=version,
            bases=ends,
            counts={partition: counts.get(partition, 0) for partition in ends},
        )
        self._checkpoint.write(FILE_NAME, state.to_json())
        self._report.line(f"{state.record_count:,} records are chosen")
        return state, rows

    def _rows(self, version: int, partition_count: int) -> DataFrame:
        records = chosen(self._table.rows(version), self._request.selection)
        return with_target_partition(records, partition_count, by_key=self._request.is_by_key)

    def _send(self, state: ReplayState, rows: DataFrame, ends: Mapping[int, int]) -> None:
        present = state.sent(ends)
        open_partitions = [one for one, count in state.counts.items() if present[one] < count]
        if not open_partitions:
            return
        rate = self._request.records_per_second
        slots = self._spark.sparkContext.defaultParallelism
        task = ReplayTask(
            target=self._target,
            bases=dict(state.bases),
            ends=dict(ends),
            records_per_second=task_rate(rate, len(open_partitions), slots) if rate else None,
            quiet_ms=self._request.settle_ms,
        )
        ordered = (
            rows.where(rows.target.isin(open_partitions))
            .repartitionById(len(state.bases), "target")
            .sortWithinPartitions("partition", "offset")
            .selectExpr("key", "value", "headers", "timestamp", "target AS partition")
        )
        with _Watch(self._target, state, self._report):
            send_rows(ordered, task)

    def _finish(self, state: ReplayState) -> None:
        """Compare what the target has got with what it was to get. Raises: PipelineError."""
        ends = self._target.settled_ends(0)
        sent = state.sent(ends)
        if sent != dict(state.counts):
            # A leader that was just elected may not show yet what is acknowledged.
            sent = state.sent(self._target.settled_ends(self._request.settle_ms))
        if sent != dict(state.counts):
            lacking = state.record_count - sum(sent.values())
            raise PipelineError(f"{lacking:,} records are missing in {self._target.topic}")
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
                sent = sum(self._state.sent(self._target.ends()).values())
            except PipelineError:
                continue  # the tasks will say what is wrong
            self._report.amount(sent, self._state.record_count)

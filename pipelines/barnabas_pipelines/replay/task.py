"""What a Spark task does in a replay: sends the rows of one partition of the target, in order.

Each attempt, the first one too, waits until the target has stopped growing, asks how many of its
records are there already and leaves out so many of its rows; so the task can be repeated, by Spark
or by the next run. Spark's attempt number says nothing about earlier attempts: it is 0 again in
each attempt of a stage. That the rows are the same, in the same order, follows from the state of
the replay; that the records are, is checked with the last one that is there.

Not here: from a frame to tasks (`sink.py`, `runner.py`), sending (`datasource/record_sender.py`).

Invariants: all rows of a task have one `partition`; nothing is sent while it is not known where the
target ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from barnabas_client.env import Environment
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.replay.pace import Pace
from barnabas_pipelines.replay.target import Target

NO_TIMESTAMP_MS = -1
_US_PER_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """Pickled to the workers, and given the rows there as Arrow batches.

    Rows have `key`, `value`, `headers`, `timestamp` and `partition`, that of the target. `ends` are
    those that the driver has seen: a later look that finds less is of a leader that lags behind.
    """

    target: Target
    bases: Mapping[int, int]
    ends: Mapping[int, int]
    records_per_second: float | None
    quiet_ms: int

    def send(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Send the rows; returns how many the target did not have before.

        Raises: PipelineError.
        """
        from barnabas_pipelines.datasource.record_sender import record_sender

        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return 0
        partition = int(first.column("partition")[0].as_py())
        present = self._present(partition)
        clock = Environment().clock
        sent = 0
        with record_sender(self.target.producer_settings, self.target.topic) as sender:
            pace = Pace(self.records_per_second, clock.monotonic_ms())
            rest = self._rest(_chain(first, filled), partition, present)
            for rows in _slices(rest, pace.slice_records):
                time.sleep(pace.wait_ms(sent, clock.monotonic_ms()) / 1000)
                sender.send(rows)
                sent += rows.num_rows
            return sender.finish()

    def _present(self, partition: int) -> int:
        """How many records of this task the target has, once earlier attempts have ended.

        Raises: PipelineError if the target shows less than it did; StalledError.
        """
        # An earlier attempt that is slowed down looks ended between two of its records.
        gap_ms = 0 if self.records_per_second is None else round(2000 / self.records_per_second)
        quiet_ms = max(self.quiet_ms, gap_ms)
        end = self.target.settled_ends(quiet_ms, [partition])[partition]
        if end < self.ends[partition]:
            raise PipelineError(
                f"partition {partition} of the target ends at offset {end}, and was seen to end at "
                f"{self.ends[partition]}: its leader may lag behind, or it lost records"
            )
        return end - self.bases[partition]

    def _rest(
        self, batches: Iterator[pa.RecordBatch], partition: int, present: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows behind those that are present, after a look at the last of these."""
        left = present
        for batch in batches:
            if left >= batch.num_rows:
                left -= batch.num_rows
                if left == 0:
                    self._check(partition, present, batch.slice(batch.num_rows - 1))
                continue
            if left:
                self._check(partition, present, batch.slice(left - 1, 1))
            yield batch.slice(left)
            left = 0
        if left:
            raise PipelineError(f"partition {partition} of the target has more than is replayed")

    def _check(self, partition: int, present: int, row: pa.RecordBatch) -> None:
        offset = self.bases[partition] + present - 1
        record = self.target.record_at(partition, offset)
        if record is None:
            return
        key, value, headers, timestamp_ms = _expected(row.to_pylist()[0])
        if timestamp_ms == NO_TIMESTAMP_MS:
            timestamp_ms = record.timestamp_ms  # stamped when it was sent
        found = (record.key, record.value, list(record.headers), record.timestamp_ms)
        if found != (key, value, headers, timestamp_ms):
            raise PipelineError(
                f"the record at offset {offset} of {self.target.topic}-{partition} is not the one "
                "that this replay had sent there: somebody else writes to the target; begin again "
                "with another target and checkpoint"
            )


def _expected(row: Mapping[str, Any]) -> tuple[Any, ...]:
    headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
    moment = pa.scalar(row["timestamp"], pa.timestamp("us", tz="UTC")).value
    return row["key"], row["value"], headers, moment // _US_PER_MS


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _slices(
    batches: Iterator[pa.RecordBatch], record_count_max: int | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        step = record_count_max or batch.num_rows
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)

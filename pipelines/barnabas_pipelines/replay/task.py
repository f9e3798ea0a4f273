"""What a Spark task does in a replay: sends the rows of one partition of the target, in order.

Each attempt, the first one too, shuts out all earlier ones by its producer's transactional id, asks
how many of its records are committed, and leaves out so many of its rows; so the task can be
repeated, by Spark or by the next run. Spark's attempt number says nothing about earlier attempts:
it is 0 again in each attempt of a stage. That the rows are the same, in the same order, follows
from the state of the replay.

Not here: from a frame to tasks (`runner.py`), the transactions (`sender.py`).

Invariants: all rows of a task have one `partition`; nothing is sent while it is not known how much
is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from barnabas_client.env import Environment
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.replay.state import progress_lost
from barnabas_pipelines.replay.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """Pickled to the workers, and given the rows there as Arrow batches.

    Rows have `key`, `value`, `headers`, `timestamp` and `partition`, that of the target.
    """

    target: Target
    replay_id: str
    records_per_second: float | None

    def send(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Send the rows; returns how many the target did not have before.

        Raises: PipelineError.
        """
        from barnabas_pipelines.replay.sender import replay_sender

        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return 0
        partition = int(first.column("partition")[0].as_py())
        clock = Environment().clock
        sent = 0
        with replay_sender(self.target, self.replay_id, partition) as sender:
            pace = Pace(self.records_per_second, clock.monotonic_ms())
            rest = rows_behind(sender.committed, _chain(first, filled), partition)
            for rows in _slices(rest, pace.slice_records):
                wait_ms = pace.wait_ms(sent, clock.monotonic_ms())
                sender.commit_before(wait_ms)
                time.sleep(wait_ms / 1000)
                sender.send(rows)
                sent += rows.num_rows
            sender.commit()
        return sent


def rows_behind(
    present: int, batches: Iterator[pa.RecordBatch], partition: int
) -> Iterator[pa.RecordBatch]:
    """The rows that come after so many. Raises: PipelineError if there are not so many."""
    if present < 0:
        raise PipelineError(progress_lost(partition))
    left = present
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left)
        left = max(0, left - batch.num_rows)
    if left:
        raise PipelineError(f"partition {partition} of the target has more than is replayed")


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


_SLICES_PER_SECOND: Final = 10


class Pace:
    """The pace of one task; without a rate nothing is held back."""

    def __init__(self, records_per_second: float | None, start_ms: int) -> None:
        self._rate = records_per_second
        self._start_ms = start_ms

    @property
    def slice_records(self) -> int | None:
        """How many records to send at once at most, so that the load is even; None for any."""
        return None if self._rate is None else max(1, int(self._rate / _SLICES_PER_SECOND))

    def wait_ms(self, record_count: int, now_ms: int) -> int:
        """How long to wait before more than `record_count` records may have been sent."""
        if self._rate is None:
            return 0
        due_ms = self._start_ms + round(record_count * 1000 / self._rate)
        return max(0, due_ms - now_ms)


def task_rate(records_per_second: float, task_count: int, slot_count: int) -> float:
    """The share of one task, so that all that run at once stay below the rate together."""
    return records_per_second / max(1, min(task_count, slot_count))

"""What a task of a replay sends when the target has some of its records already."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.replay import sender as sending
from barnabas_pipelines.replay import task as sending_task
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.replay.task import ReplayTask, rows_behind

TARGET = Target(topic="again", producer_settings={"bootstrap_servers": "nowhere:1"})
SCHEMA = pa.schema([("value", pa.binary()), ("partition", pa.int32())])


def batches(*counts: int) -> Iterator[pa.RecordBatch]:
    """Numbered rows of partition 2 in batches of these sizes."""
    start = 0
    for count in counts:
        values = [struct.pack(">i", number) for number in range(start, start + count)]
        columns = {"value": values, "partition": [2] * count}
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
        start += count


def numbers(rows: pa.RecordBatch) -> list[int]:
    return [struct.unpack(">i", value)[0] for value in rows.column("value").to_pylist()]


@pytest.mark.parametrize("present", range(7))
def test_as_many_rows_are_left_out_as_are_there(present: int) -> None:
    """Wherever in which batch the last run was cut off."""
    left = rows_behind(present, batches(3, 1, 2), 2)
    assert [number for rows in left for number in numbers(rows)] == list(range(present, 6))


def test_more_records_than_rows_stop_the_replay() -> None:
    """They cannot be from it."""
    with pytest.raises(PipelineError, match="more than is replayed"):
        list(rows_behind(7, batches(6), 2))


class Committed:
    """Stands for a sender: what is sent counts when it is committed."""

    def __init__(self, log: list[int], commits: list[int], *, fails_at: int | None) -> None:
        self._log = log
        self._commits = commits
        self._open: list[int] = []
        self._fails_at = fails_at
        self.committed = len(log)

    def send(self, rows: pa.RecordBatch) -> None:
        self._open += numbers(rows)
        if self._fails_at is not None and self._fails_at in self._open:
            raise PipelineError("the task is killed")

    def commit_before(self, wait_ms: int) -> None:
        if wait_ms >= 50:
            self.commit()

    def commit(self) -> None:
        self._log += self._open
        self._commits.append(len(self._log))
        self._open = []


class Bench:
    """Tasks that fill partition 2, and what is committed there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[int] = []
        self.commits: list[int] = []
        self.fails_at: int | None = None

        @contextmanager
        def sender(target: Target, replay_id: str, partition: int) -> Iterator[Any]:
            assert (target, replay_id, partition) == (TARGET, "4a5b", 2)
            yield Committed(self.log, self.commits, fails_at=self.fails_at)

        monkeypatch.setattr(sending, "replay_sender", sender)

    def send(self, *counts: int, rate: float | None = None) -> int:
        task = ReplayTask(target=TARGET, replay_id="4a5b", records_per_second=rate)
        return task.send(batches(*counts))


@pytest.mark.parametrize("first_rows", [0, 1, 4, 6])
def test_a_repeated_stage_doubles_nothing(monkeypatch: pytest.MonkeyPatch, first_rows: int) -> None:
    """Its tasks have attempt number 0 again, and know only what is committed."""
    bench = Bench(monkeypatch)
    bench.send(first_rows)
    assert bench.send(6) == 6 - first_rows
    assert bench.log == list(range(6))


def test_what_was_not_committed_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction of an attempt that was killed is aborted by the next one."""
    bench = Bench(monkeypatch)
    bench.fails_at = 4
    with pytest.raises(PipelineError, match="killed"):
        bench.send(3, 3)
    assert bench.log == []
    bench.fails_at = None
    assert bench.send(3, 3) == 6
    assert bench.log == list(range(6))


class SleptTime:
    """A clock that stands still but for those who sleep."""

    def __init__(self) -> None:
        self.slept_ms: list[int] = []

    def monotonic_ms(self) -> int:
        return sum(self.slept_ms)

    def sleep(self, seconds: float) -> None:
        self.slept_ms.append(round(seconds * 1000))


def test_a_slow_replay_commits_before_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that is open for too long is aborted by the brokers."""
    bench = Bench(monkeypatch)
    wall = SleptTime()
    monkeypatch.setattr(sending_task, "Environment", lambda: SimpleNamespace(clock=wall))
    monkeypatch.setattr(sending_task, "time", wall)
    bench.send(4, rate=15)
    assert wall.slept_ms == [0, 67, 66, 67]
    assert bench.commits == [1, 2, 3, 4]
    assert bench.log == list(range(4))


def test_progress_that_is_not_known_stops_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """To begin again would double everything."""
    with pytest.raises(PipelineError, match="not known any more"):
        list(rows_behind(-1, batches(3), 2))

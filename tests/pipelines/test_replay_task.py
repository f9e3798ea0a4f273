"""What a task of a replay sends when the target has some of its records already."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from barnabas_client import ConsumerRecord
from barnabas_pipelines.datasource import record_sender
from barnabas_pipelines.errors import PipelineError
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.replay.task import ReplayTask

BASE = 100
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("partition", pa.int32()),
    ]
)


class KnownTarget(Target):
    """A target with the records that it is said to have."""

    __slots__ = ("records",)

    def __init__(self, records: Mapping[int, ConsumerRecord]) -> None:
        super().__init__(topic="again", producer_settings={"bootstrap_servers": "nowhere:1"})
        object.__setattr__(self, "records", records)

    def record_at(self, partition: int, offset: int) -> ConsumerRecord | None:
        found: ConsumerRecord | None = self.records.get(offset)  # type: ignore[attr-defined]
        return found


def row(number: int, timestamp_ms: int | None = None) -> dict[str, Any]:
    """One row of partition 2."""
    moment_ms = number if timestamp_ms is None else timestamp_ms
    return {
        "key": None,
        "value": b"%d" % number,
        "headers": [{"key": "n", "value": None}] if number % 2 else None,
        "timestamp": moment_ms * 1000,
        "partition": 2,
    }


def batches(*counts: int) -> Iterator[pa.RecordBatch]:
    """Rows in batches of these sizes."""
    start = 0
    for count in counts:
        rows = [row(number) for number in range(start, start + count)]
        columns = {name: [one[name] for one in rows] for name in SCHEMA.names}
        yield pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
        start += count


def record(offset: int, value: bytes, timestamp_ms: int) -> ConsumerRecord:
    """What the target has."""
    number = offset - BASE
    headers = (("n", None),) if number % 2 else ()
    return ConsumerRecord("again", 2, offset, timestamp_ms, 0, None, value, headers)


def rest(present: int, found: Mapping[int, ConsumerRecord], *counts: int) -> list[int]:
    """The numbers of the rows that are left to be sent."""
    task = ReplayTask(
        target=KnownTarget(found),
        bases={2: BASE},
        ends={2: BASE + present},
        records_per_second=None,
        quiet_ms=0,
    )
    left = task._rest(batches(*counts), 2, present)
    return [int(value) for one in left for value in one.column("value").to_pylist()]


@pytest.mark.parametrize("present", range(7))
def test_as_many_rows_are_left_out_as_are_there(present: int) -> None:
    """Wherever in which batch the last run was cut off."""
    last = BASE + present - 1
    found = {last: record(last, b"%d" % (present - 1), present - 1)} if present else {}
    assert rest(present, found, 3, 1, 2) == list(range(present, 6))


def test_a_record_that_is_not_ours_stops_the_replay() -> None:
    """Somebody else's records would be taken for the first ones of this replay."""
    found = {BASE + 3: record(BASE + 3, b"foreign", 3)}
    with pytest.raises(PipelineError, match=r"offset 103 of again-2.*somebody else"):
        rest(4, found, 6)
    with pytest.raises(PipelineError, match="somebody else"):
        rest(4, {BASE + 3: record(BASE + 3, b"3", 4)}, 6)


def test_a_record_that_retention_took_is_believed() -> None:
    """Old records are deleted soon where nobody has changed the target's settings."""
    assert rest(4, {}, 6) == [4, 5]


def test_more_records_than_rows_stop_the_replay() -> None:
    """They cannot be from it."""
    with pytest.raises(PipelineError, match="more than is replayed"):
        rest(7, {}, 6)


class GrowingTarget(Target):
    """A target that keeps what is sent to it; remembers how long it was watched."""

    __slots__ = ("quiet_ms", "values")

    def __init__(self) -> None:
        super().__init__(topic="again", producer_settings={"bootstrap_servers": "nowhere:1"})
        object.__setattr__(self, "values", [])
        object.__setattr__(self, "quiet_ms", [])

    values: list[bytes]
    quiet_ms: list[int]

    def settled_ends(
        self, quiet_ms: int, partitions: Collection[int] | None = None
    ) -> dict[int, int]:
        assert partitions == [2]
        self.quiet_ms.append(quiet_ms)
        return {2: BASE + len(self.values)}

    def record_at(self, partition: int, offset: int) -> ConsumerRecord | None:
        return None


class Sender:
    """Gives rows to a target."""

    def __init__(self, target: GrowingTarget) -> None:
        self._target = target
        self._count = 0

    def send(self, rows: pa.RecordBatch) -> None:
        self._target.values.extend(rows.column("value").to_pylist())
        self._count += rows.num_rows

    def finish(self) -> int:
        return self._count


def growing(
    monkeypatch: pytest.MonkeyPatch, ends: int = BASE, rate: float | None = None
) -> tuple[GrowingTarget, ReplayTask]:
    """A task whose records come into a target that it asks."""
    target = GrowingTarget()

    @contextmanager
    def sender(*_: object) -> Iterator[Sender]:
        yield Sender(target)

    monkeypatch.setattr(record_sender, "record_sender", sender)
    task = ReplayTask(
        target=target, bases={2: BASE}, ends={2: ends}, records_per_second=rate, quiet_ms=700
    )
    return target, task


@pytest.mark.parametrize("first_rows", [0, 1, 4, 6])
def test_a_repeated_stage_doubles_nothing(monkeypatch: pytest.MonkeyPatch, first_rows: int) -> None:
    """Its tasks have attempt number 0 again, and know only what the driver saw at the start."""
    target, task = growing(monkeypatch)
    task.send(batches(first_rows))
    assert task.send(batches(6)) == 6 - first_rows
    assert target.values == [b"%d" % number for number in range(6)]


def test_a_slow_attempt_is_not_taken_for_an_ended_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends nothing for longer than `--settle` where the rate is low."""
    target, task = growing(monkeypatch)
    task.send(batches(1))
    assert target.quiet_ms == [700]
    target, task = growing(monkeypatch, rate=0.5)
    task.send(batches(1))
    assert target.quiet_ms == [4000]


def test_a_leader_that_lags_behind_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not show yet would be sent again."""
    target, task = growing(monkeypatch, ends=BASE + 2)
    with pytest.raises(PipelineError, match="was seen to end at 102"):
        task.send(batches(6))
    assert target.values == []

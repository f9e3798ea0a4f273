"""`aggregate` through a real broker: the compacted view of its target is what arithmetic says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_pipelines.jobs import aggregate
from barnabas_pipelines.jobs.settings import settings_of
from tests.pipelines.spark import records
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON_MS = 1_767_268_800_000
"""2026-01-01 12:00 UTC."""
NewTopic = Callable[..., str]


class Job:
    """The job on one topic; `run` runs it until all that is there has been read."""

    def __init__(
        self, spark: "SparkSession", bootstrap: str, directory: Path, new_topic: NewTopic
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        # The records are older than a week.
        self.topic = new_topic(partitions=2, configs={"retention.ms": "-1"})
        self.target = f"{self.topic}-totals"
        self.checkpoint = directory / "checkpoint"
        self.said: list[str] = []

    def run(self, **options: Any) -> None:
        """Run it with further options; what it said is in `said`."""
        settings = settings_of(aggregate.JOB.options, self.given(**options))
        aggregate.JOB.check(settings)
        report = RecordedReport("aggregate")
        try:
            aggregate.JOB.run(settings, self.spark, report)
        finally:
            self.said = report.lines

    def given(self, **options: Any) -> dict[str, Any]:
        """All options by name."""
        return {
            "bootstrap-servers": self.bootstrap,
            "topic": self.topic,
            "target": self.target,
            "create-target": True,
            "checkpoint": str(self.checkpoint),
            "group-by": "user",
            "measures": "count, sum(amount), p50(amount)",
            "state-partitions": 2,
        } | {name.replace("_", "-"): value for name, value in options.items()}

    def produce(self, *rows: tuple[float, Any]) -> None:
        """Write JSON values (or bytes), each so many seconds after noon."""
        records.produce(
            self.bootstrap,
            self.topic,
            [
                RecordToSend(
                    key=b"key-%d" % number,
                    value=value if isinstance(value, bytes) else json.dumps(value).encode(),
                    partition=number % 2,
                    timestamp_ms=NOON_MS + int(seconds * 1000),
                    headers=[("trace", b"%d" % number)],
                )
                for number, (seconds, value) in enumerate(rows)
            ],
        )

    def view(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """The newest row per key, as compaction leaves it, by time of day and user."""
        newest: dict[bytes, bytes] = {}
        for record in records.consume(self.bootstrap, self.target):
            assert record.key is not None and record.value is not None
            newest[record.key] = record.value
        rows = {}
        for key, value in newest.items():
            row = json.loads(value)
            assert json.loads(key) == {name: row[name] for name in ("window_start", "user")}
            rows[row["window_start"][11:19], row["user"]] = row
        return rows

    def counts(self) -> dict[tuple[str, str | None], tuple[int, float | None]]:
        """Count and sum of each row of the view."""
        return {key: (row["count"], row["sum_amount"]) for key, row in self.view().items()}


@pytest.fixture
def job(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic) -> Job:
    """A job on a new topic of the shared broker."""
    return Job(spark, broker.bootstrap, tmp_path, new_topic)


def test_runs_go_on_from_each_other_and_rows_replace_themselves(job: Job) -> None:
    """Three runs over a growing topic are one aggregation: state outlives the driver."""
    job.produce((0, {"user": "ann", "amount": 1}), (1, {"user": "bob", "amount": 5}))
    job.run()
    assert job.counts() == {("12:00:00", "ann"): (1, 1.0), ("12:00:00", "bob"): (1, 5.0)}
    job.produce((59, {"user": "ann", "amount": 3}), (60, {"user": "ann", "amount": 7}), (2, {}))
    job.run()
    job.run()
    assert job.counts() == {
        ("12:00:00", "ann"): (2, 4.0),
        ("12:01:00", "ann"): (1, 7.0),
        ("12:00:00", "bob"): (1, 5.0),
        ("12:00:00", None): (1, None),
    }
    assert job.view()["12:00:00", "ann"]["p50_amount"] in (1.0, 3.0)
    assert any("compacted, with 2 partitions" in line for line in _first_run(job))


def _first_run(job: Job) -> list[str]:
    """What a run says that has to create its target."""
    job.checkpoint = job.checkpoint.with_name("another")
    job.target = f"{job.topic}-again"
    job.run()
    return job.said


def test_a_repeated_batch_changes_nothing(job: Job) -> None:
    """A driver that dies after writing and before remembering writes the same keys again."""
    job.produce(*((second, {"user": "ann", "amount": second}) for second in range(90)))
    job.run()
    before = job.view()
    rows_before = len(records.consume(job.bootstrap, job.target))
    forget_batches(job.checkpoint / "aggregate", first=0)
    job.run()
    assert len(records.consume(job.bootstrap, job.target)) > rows_before, "it was not repeated"
    assert job.view() == before


def forget_batches(query: Path, first: int) -> None:
    """Leave of a checkpoint what a driver leaves that dies in the batch, after writing its rows."""
    for folder, kept in (("commits", first), ("offsets", first + 1)):
        for path in (query / folder).iterdir():
            number = path.name.removeprefix(".").removesuffix(".crc")
            if number.isdecimal() and int(number) >= kept:
                path.unlink()


def test_late_records_are_dropped_and_told(job: Job) -> None:
    """Older than the watermark: the window is closed, but nobody is left guessing."""
    job.produce((7200, {"user": "ann", "amount": 1}))
    job.run(watermark="1m")
    job.produce((0, {"user": "late", "amount": 1}), (7200, {"user": "ann", "amount": 1}))
    job.run(watermark="1m")
    assert job.counts() == {("14:00:00", "ann"): (2, 2.0)}
    assert any("1 groups of late records dropped" in line for line in job.said), job.said


def test_append_mode_writes_each_window_once_when_it_is_over(job: Job) -> None:
    """The last windows wait for newer records: no clock closes them."""
    job.produce((0, {"user": "ann", "amount": 1}), (30, {"user": "ann", "amount": 2}))
    job.run(output_mode="append", watermark="1m")
    assert job.view() == {}
    job.produce((200, {"user": "ann", "amount": 1}))
    job.run(output_mode="append", watermark="1m")
    assert job.counts() == {("12:00:00", "ann"): (2, 3.0)}
    assert len(records.consume(job.bootstrap, job.target)) == 1


def test_an_undecodable_record_fails_the_job_and_is_named(job: Job) -> None:
    """The default: nobody has said that it may be left out."""
    job.produce((0, {"user": "ann", "amount": 1}), (0, b"{broken"))
    with pytest.raises(Exception, match=r"partition 1, offset 0: the value is not JSON"):
        job.run()
    assert job.view() == {}
    job.run(undecodable="count-and-skip")
    assert job.counts() == {("12:00:00", "ann"): (1, 1.0)}
    assert any("1 undecodable records left out" in line for line in job.said), job.said


def test_undecodable_records_become_dead_letters_as_they_were(
    job: Job, new_topic: NewTopic
) -> None:
    """Key, value and headers can be sent again; further headers say why and where from."""
    letters = new_topic(partitions=1)
    job.produce((0, {"user": "ann", "amount": 1}), (5, b"\xff\x00"), (0, {"user": "b"}))
    job.run(undecodable="dead-letter", dead_letter_topic=letters)
    assert job.counts() == {("12:00:00", "ann"): (1, 1.0), ("12:00:00", "b"): (1, None)}
    (letter,) = records.consume(job.bootstrap, letters)
    assert (letter.key, letter.value) == (b"key-1", b"\xff\x00")
    assert dict(letter.headers) == {
        "trace": b"1",
        "barnabas.reason": b"the value is not UTF-8",
        "barnabas.topic": job.topic.encode(),
        "barnabas.partition": b"1",
        "barnabas.offset": b"0",
        "barnabas.timestamp": b"%d" % (NOON_MS + 5000),
    }
    job.produce((0, b"more"))
    job.run(undecodable="dead-letter", dead_letter_topic=letters)
    assert [one.value for one in records.consume(job.bootstrap, letters)] == [b"\xff\x00", b"more"]


def test_event_time_of_a_field_and_groups_of_the_record(job: Job) -> None:
    """Milliseconds in a nested field; the record's own time and the value's user do not matter."""
    job.produce(
        (0, {"at": {"ms": NOON_MS - 3_600_000}, "amount": 2}),
        (0, {"at": {"ms": NOON_MS + 7_200_000}, "amount": 2}),
    )
    job.run(
        event_time="at.ms",
        event_time_unit="ms",
        group_by="record.partition as user",
        undecodable="count-and-skip",
    )
    assert job.counts() == {("11:00:00", 0): (1, 2.0)}  # type: ignore[comparison-overlap]
    assert any("1 undecodable" in line for line in job.said), "two hours ahead of its record"


def test_the_python_way_gives_the_same_rows(job: Job, new_topic: NewTopic) -> None:
    """No jars are needed for it."""
    letters = new_topic(partitions=1)
    options = {"via": "python", "undecodable": "dead-letter", "dead_letter_topic": letters}
    job.produce((0, {"user": "ann", "amount": 1}), (61, {"user": "ann", "amount": 2}))
    job.run(**options)
    job.produce((2, {"user": "ann", "amount": 3}), (3, b"?"))
    job.run(**options)
    assert [one.value for one in records.consume(job.bootstrap, letters)] == [b"?"]
    assert job.counts() == {("12:00:00", "ann"): (2, 4.0), ("12:01:00", "ann"): (1, 2.0)}

"""`aggregate` through a real broker: the compacted view of its target is what arithmetic says."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_pipelines.jobs import aggregate
from barnabas_pipelines.jobs.job import main
from tests.pipelines.spark import records
from tests.pipelines.spark.aggregate_job import NOON_MS, AggregateJob
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]


@pytest.fixture
def job(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path, new_topic: NewTopic
) -> AggregateJob:
    """A job on a new topic of the shared broker."""
    topic = new_topic(partitions=2, configs={"retention.ms": "-1"})
    return AggregateJob(spark, broker.bootstrap, tmp_path, topic)


def test_runs_go_on_from_each_other_and_rows_replace_themselves(job: AggregateJob) -> None:
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


def _first_run(job: AggregateJob) -> list[str]:
    """What a run says that has to create its target."""
    job.checkpoint = job.checkpoint.with_name("another")
    job.target = f"{job.topic}-again"
    job.run()
    return job.said


def test_a_repeated_batch_changes_nothing(job: AggregateJob) -> None:
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


def test_late_records_are_dropped_and_told(job: AggregateJob) -> None:
    """Older than the watermark: the window is closed, but nobody is left guessing."""
    job.produce((7200, {"user": "ann", "amount": 1}))
    job.run(watermark="1m")
    job.produce((0, {"user": "late", "amount": 1}), (7200, {"user": "ann", "amount": 1}))
    job.run(watermark="1m")
    assert job.counts() == {("14:00:00", "ann"): (2, 2.0)}
    assert any("1 groups of late records dropped" in line for line in job.said), job.said


def test_append_mode_writes_each_window_once_when_it_is_over(job: AggregateJob) -> None:
    """The last windows wait for newer records: no clock closes them."""
    job.produce((0, {"user": "ann", "amount": 1}), (30, {"user": "ann", "amount": 2}))
    job.run(output_mode="append", watermark="1m")
    assert job.view() == {}
    job.produce((200, {"user": "ann", "amount": 1}))
    job.run(output_mode="append", watermark="1m")
    assert job.counts() == {("12:00:00", "ann"): (2, 3.0)}
    assert len(records.consume(job.bootstrap, job.target)) == 1


def test_an_undecodable_record_fails_the_job_and_is_named(job: AggregateJob) -> None:
    """The default: nobody has said that it may be left out."""
    job.produce((0, {"user": "ann", "amount": 1}), (0, b"{broken"))
    with pytest.raises(Exception, match=r"partition 1, offset 0: the value is not JSON"):
        job.run()
    assert job.view() == {}
    job.run(undecodable="count-and-skip")
    assert job.counts() == {("12:00:00", "ann"): (1, 1.0)}
    assert any("1 undecodable records left out" in line for line in job.said), job.said


def test_undecodable_records_become_dead_letters_as_they_were(
    job: AggregateJob, new_topic: NewTopic
) -> None:
    """Key, value and headers can be sent again; further headers say why and where from."""
    letters = new_topic(partitions=1)
    job.produce((0, {"user": "ann", "amount": 1}), (5, b"\xff\x00"), (0, {"user": "b"}))
    job.run(undecodable="dead-letter", dead_letter_topic=letters)
    assert job.counts() == {("12:00:00", "ann"): (1, 1.0), ("12:00:00", "b"): (1, None)}
    assert "3 records read, 1 undecodable left out" in job.said[-1], job.said
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


def test_event_time_of_a_field_and_groups_of_the_record(job: AggregateJob) -> None:
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


def test_the_python_way_gives_the_same_rows(job: AggregateJob, new_topic: NewTopic) -> None:
    """No jars are needed for it."""
    letters = new_topic(partitions=1)
    options = {"via": "python", "undecodable": "dead-letter", "dead_letter_topic": letters}
    job.produce((0, {"user": "ann", "amount": 1}), (61, {"user": "ann", "amount": 2}))
    job.run(**options)
    job.produce((2, {"user": "ann", "amount": 3}), (3, b"?"))
    job.run(**options)
    assert [one.value for one in records.consume(job.bootstrap, letters)] == [b"?"]
    assert any("1 undecodable records left out" in line for line in job.said), job.said
    assert job.counts() == {("12:00:00", "ann"): (2, 4.0), ("12:01:00", "ann"): (1, 2.0)}


def test_the_plan_says_what_is_read_written_and_guaranteed(
    job: AggregateJob, new_topic: NewTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    """--dry-run starts no Spark, makes no topic and leaves no checkpoint."""
    job.produce((0, {"user": "ann", "amount": 1}))

    def plan(**options: Any) -> str:
        given = job.given(**options)
        words = [f"--{name}={str(value).lower()}" for name, value in given.items()]
        assert main(aggregate.JOB, [*words, "--dry-run"]) == 0
        return " ".join(capsys.readouterr().out.split())

    text = plan(window="1h", slide="15m")
    assert f"{job.topic}: 2 partitions, 1 offsets" in text
    assert "window of 1h, one every 15m over the time of the record, user" in text
    assert "created, compacted, with 2 partitions" in text
    assert "p50(amount) as p50_amount" in text
    assert "0.01% of the count" in text
    assert "the newest row per key counts every record that is not late exactly once" in text
    assert "MISSING" in plan(create_target=False)
    not_compacted = new_topic(partitions=1)
    assert "cleanup.policy delete: it keeps every row" in plan(target=not_compacted)
    assert not job.checkpoint.exists()
    assert main(aggregate.JOB, ["--topic", "x", "--widow", "1m"]) == 2
    assert "Did you mean '--window'?" in capsys.readouterr().err

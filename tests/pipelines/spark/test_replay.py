"""`replay` through a real broker: what was archived is in the target again, byte for byte, once."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from barnabas_client import ConsumerRecord
from barnabas_client.producer.partitioner import partition_of_key
from barnabas_pipelines.errors import DeliveryError, OptionsError, PipelineError
from barnabas_pipelines.jobs import replay
from barnabas_pipelines.jobs.settings import settings_of
from barnabas_pipelines.replay.sender import replay_sender
from barnabas_pipelines.replay.state import FILE_NAME
from barnabas_pipelines.replay.target import Target
from barnabas_pipelines.storage.file_store import LocalFiles
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import (
    DAY_MS,
    KEPT,
    NOON_MS,
    ArchiveJob,
    awkward_records,
)
from tests.pipelines.spark.kill_rounds import ROUNDS, Driver
from tests.pipelines.spark.recorded_report import RecordedReport
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NewTopic = Callable[..., str]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COUNT = 240
PARTITIONS = 3


class ReplayJob:
    """The job from one archive; each run says where to."""

    def __init__(self, archive: ArchiveJob, source: str, directory: Path) -> None:
        self.archive = archive
        self.source = source
        self.directory = directory
        self.said: list[str] = []

    def given(self, target: str, **options: Any) -> dict[str, Any]:
        """All options by name."""
        return {
            "bootstrap-servers": self.archive.bootstrap,
            "path": str(self.archive.path),
            "target": target,
            "checkpoint": str(self.directory / f"checkpoint of {target}"),
        } | options

    def run(self, target: str, **options: Any) -> None:
        """Run it; what it said is in `said`."""
        settings = settings_of(replay.JOB.options, self.given(target, **options))
        replay.JOB.check(settings)
        replay.JOB.plan(settings)
        report = RecordedReport("replay")
        try:
            replay.JOB.run(settings, self.archive.spark, report)
        finally:
            self.said = report.lines

    def records(self, topic: str) -> list[ConsumerRecord]:
        """All records of a topic."""
        return records.consume(self.archive.bootstrap, topic)

    def sent(self) -> list[ConsumerRecord]:
        """All records that were archived."""
        return self.records(self.source)


@pytest.fixture(scope="module", name="archive")
def an_archive(
    spark: "SparkSession", broker: BarnabasProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArchiveJob]:
    """An archive of several batches, made once."""
    topic = "replay-source"
    records.create_topic(broker.bootstrap, topic, PARTITIONS, dict(KEPT))
    records.produce(broker.bootstrap, topic, awkward_records(COUNT, PARTITIONS))
    job = ArchiveJob(spark, broker.bootstrap, tmp_path_factory.mktemp("replay") / "archive")
    job.run(topic, **{"max-offsets-per-trigger": 100})
    assert job.table().version() == 2
    yield job


@pytest.fixture(name="job")
def a_job(archive: ArchiveJob, tmp_path: Path) -> ReplayJob:
    """Replays of it."""
    return ReplayJob(archive, "replay-source", tmp_path)


def content(found: Sequence[ConsumerRecord]) -> list[tuple[Any, ...]]:
    """All that a replay keeps: partition, key, value, headers and timestamp, in order."""
    return [(one.partition, one.key, one.value, one.headers, one.timestamp_ms) for one in found]


def test_an_archive_is_replayed_byte_for_byte(job: ReplayJob, new_topic: NewTopic) -> None:
    """Keys, values, headers (null and doubled ones too), timestamps, partitions and their order."""
    target = new_topic(partitions=PARTITIONS + 1, configs=KEPT)
    job.run(target)
    assert content(job.records(target)) == content(job.sent())
    assert f"replay: done: {COUNT} records are in {target}" in job.said


def test_two_runs_that_begin_at_once_send_everything_once(
    job: ReplayJob, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was given up and started again may be alive: each would send under its own id."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    job.run(target)
    read, calls = LocalFiles.read, []

    def before_the_other(files: LocalFiles, path: str) -> str | None:
        if path != FILE_NAME or calls:
            return read(files, path)
        calls.append(path)
        return None

    monkeypatch.setattr(LocalFiles, "read", before_the_other)
    job.run(target)
    assert calls == [FILE_NAME]
    assert len(job.records(target)) == COUNT


def test_a_replay_that_is_done_does_nothing_again(job: ReplayJob, new_topic: NewTopic) -> None:
    """A job that is restarted by mistake must not double a topic."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    job.run(target)
    job.run(target)
    assert job.said[-1] == f"replay: done before: {COUNT} records"
    assert len(job.records(target)) == COUNT


@pytest.mark.parametrize(
    ("options", "is_chosen"),
    [
        ({"from": "2026-01-02"}, lambda one: one.timestamp_ms >= NOON_MS + DAY_MS // 2),
        (
            {"to": "2026-01-01T12:00:00.5Z"},
            lambda one: one.timestamp_ms < NOON_MS + 500,
        ),
        ({"partitions": "0,2"}, lambda one: one.partition != 1),
        (
            {"offsets": "0:10-19,1:70-"},
            lambda one: (
                (one.partition == 0 and 10 <= one.offset <= 19)
                or (one.partition == 1 and one.offset >= 70)
            ),
        ),
        (
            {"from": "2026-01-02", "to": "2026-01-03", "partitions": "1"},
            lambda one: (
                one.partition == 1
                and one.timestamp_ms // DAY_MS * DAY_MS == NOON_MS // DAY_MS * DAY_MS + DAY_MS
            ),
        ),
        ({"from": "2027-01-01"}, lambda one: False),
    ],
    ids=["from", "to", "partitions", "offsets", "all of them", "nothing"],
)
def test_what_is_chosen_is_replayed(
    job: ReplayJob,
    new_topic: NewTopic,
    options: dict[str, str],
    is_chosen: Callable[[ConsumerRecord], bool],
) -> None:
    """And nothing else, in the same order."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    job.run(target, **options)
    wanted = [one for one in job.sent() if is_chosen(one)]
    assert content(job.records(target)) == content(wanted)


def test_keys_find_their_partition_in_a_target_of_another_size(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """Where producers would send them; without a key, where they came from, wrapped around."""
    target = new_topic(partitions=2, configs=KEPT)
    job.run(target, partitioning="key")
    wanted = []
    for one in job.sent():
        number = one.partition % 2 if one.key is None else partition_of_key(one.key, 2)
        wanted.append(one._replace(partition=number))
    assert content(job.records(target)) == content(sorted(wanted, key=lambda one: one.partition))


def test_a_target_that_is_too_small_is_refused_before_anything_is_sent(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """With the partition that is missing, and what to do."""
    target = new_topic(partitions=2, configs=KEPT)
    with pytest.raises(OptionsError, match=r"has 2 partitions.*partition 2: add partitions"):
        job.run(target)
    assert job.records(target) == []
    job.run(target, partitions="0-1")
    assert len(job.records(target)) == COUNT * 2 // 3


def test_a_target_that_stamps_records_is_refused(job: ReplayJob, new_topic: NewTopic) -> None:
    """Its brokers would replace every timestamp."""
    target = new_topic(partitions=3, configs={**KEPT, "message.timestamp.type": "LogAppendTime"})
    with pytest.raises(OptionsError, match="LogAppendTime"):
        job.run(target)


def test_a_target_that_is_made_to_stamp_records_later_gets_none(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """The setting may be changed after the plan, and not every user may read it."""
    target = new_topic(partitions=3, configs={**KEPT, "message.timestamp.type": "LogAppendTime"})
    settings = settings_of(replay.JOB.options, job.given(target))
    with pytest.raises(Exception, match="so the brokers have replaced timestamps"):
        replay.JOB.run(settings, job.archive.spark, RecordedReport("replay"))
    assert job.records(target) == []


def test_another_choice_with_the_same_checkpoint_is_refused(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """It would count the records of the first as its own."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    job.run(target, partitions="0")
    with pytest.raises(OptionsError, match="of another replay: partitions was"):
        job.run(target, partitions="1")


@pytest.mark.timeout(400)
def test_a_killed_replay_goes_on_without_doubling(job: ReplayJob, new_topic: NewTopic) -> None:
    """With all of its processes at some moment after the first records."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    given = {**job.given(target), "master": "local[2]", "rate": 20}
    arguments = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    for times in range(min(ROUNDS, 2)):
        before = sum(records.end_offsets(job.archive.bootstrap, target).values())
        driver = Driver("replay", arguments, job.directory / f"{times}.log")

        def has_sent(driver: Driver = driver, before: int = before) -> bool:
            assert driver.is_running(), driver.output()
            ends = records.end_offsets(job.archive.bootstrap, target)
            return sum(ends.values()) > before + 60  # beyond what one transaction holds

        try:
            wait_until(has_sent, 100, driver.output)
        finally:
            assert driver.kill() > 1
    present = len(job.records(target))
    assert 0 < present < COUNT, "it was not cut off"
    job.run(target)
    assert f"replay: goes on behind {present} of {COUNT} records" in job.said
    assert content(job.records(target)) == content(job.sent())


def test_others_may_write_to_the_target(job: ReplayJob, new_topic: NewTopic) -> None:
    """How much is there is known by what was committed, not by where the target ends."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    records.produce(job.archive.bootstrap, target, [RecordToSend(value=b"before", partition=0)])
    given = job.given(target)
    job.run(target)
    state = Path(given["checkpoint"]) / "replay.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "done": False}))
    records.produce(job.archive.bootstrap, target, [RecordToSend(value=b"behind", partition=0)])
    job.run(target)
    assert f"replay: goes on behind {COUNT} of {COUNT} records" in job.said
    assert len(job.records(target)) == COUNT + 2


def test_progress_that_the_brokers_have_forgotten_is_told(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """A replay that was left alone for longer than offsets are kept."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    given = job.given(target)
    job.run(target)
    state = Path(given["checkpoint"]) / "replay.json"
    document = json.loads(state.read_text())
    state.write_text(json.dumps({**document, "done": False, "replay_id": "forgotten"}))
    with pytest.raises(PipelineError, match="not known any more"):
        job.run(target)
    assert len(job.records(target)) == COUNT


def test_an_archive_that_was_made_anew_is_not_gone_on_with(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """The version may be there again, with other rows: what is left out is not what is there."""
    target = new_topic(partitions=PARTITIONS, configs=KEPT)
    given = job.given(target)
    job.run(target)
    state = Path(given["checkpoint"]) / "replay.json"
    document = json.loads(state.read_text())
    assert document["table_id"] == str(job.archive.table().metadata().id)
    state.write_text(json.dumps({**document, "done": False, "table_id": "another"}))
    with pytest.raises(PipelineError, match="the archive was deleted and made anew"):
        job.run(target)
    assert len(job.records(target)) == COUNT


def test_an_attempt_that_comes_back_is_shut_out(job: ReplayJob, new_topic: NewTopic) -> None:
    """A task that was cut off while another attempt did its work can commit nothing."""
    target = Target(
        topic=new_topic(partitions=PARTITIONS, configs=KEPT),
        producer_settings={"bootstrap_servers": job.archive.bootstrap},
    )
    target.begin("cut-off", range(PARTITIONS))
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([b"v"], pa.binary()),
            "headers": pa.array([None], HEADERS),
            "timestamp": pa.array([NOON_MS * 1000], pa.timestamp("us", tz="UTC")),
            "partition": pa.array([1], pa.int32()),
        }
    )
    with (
        pytest.raises(DeliveryError, match="another attempt of this task"),
        replay_sender(target, "cut-off", 1) as cut_off,
    ):
        cut_off.send(rows)
        with replay_sender(target, "cut-off", 1) as later:
            assert later.committed == 0
            later.send(rows)
            later.commit()
        cut_off.commit()
    assert target.settled("cut-off") == {0: 0, 1: 1, 2: 0}
    assert len(job.records(target.topic)) == 1


def test_a_plan_tells_what_is_there_and_what_retention_will_do(
    job: ReplayJob, new_topic: NewTopic
) -> None:
    """Without Spark; a target with its usual retention would lose old records within minutes."""
    target = new_topic(partitions=PARTITIONS, configs={"retention.ms": "3600000"})
    settings = settings_of(replay.JOB.options, job.given(target, **{"from": "2026-01-03"}))
    lines = dict(replay.JOB.plan(settings))
    assert lines["reads"] == "topic replay-source; from 2026-01-03T00:00:00.000Z"
    assert lines["archive"].endswith("3 files with 80 records"), "one day of three"
    assert "keeps records for 1 h" in lines["beware"]
    assert "once" in lines["guarantees"]

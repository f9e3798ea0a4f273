"""Two writers of one table at once, and a topic that changes under a batch: all is there once.

A second writer is let in at the worst moments: when the first has read the table's state, and when
it has read its records.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas_pipelines.errors import PipelineError, TopicGoneError
from barnabas_pipelines.jobs import archive
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.jobs.job import main
from barnabas_pipelines.tables.marks import TableChangedError
from barnabas_pipelines.tables.table import SecondWriterError
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import KEPT, ArchiveJob, awkward_records, expected
from tests.pipelines.spark.kill_rounds import ROUNDS
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas_pipelines.archive.batches import Archiver
    from barnabas_pipelines.archive.planning import Ends

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 + 300 * ROUNDS)]

NewTopic = Callable[..., str]


@pytest.fixture(name="job")
def a_job(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path) -> ArchiveJob:
    """An archive that does not exist yet."""
    return ArchiveJob(spark, broker.bootstrap, tmp_path / "archive")


class Writer:
    """An archiver whose steps a test can get between."""

    def __init__(self, job: ArchiveJob, topic: str) -> None:
        from barnabas_pipelines.archive.batches import Archiver
        from barnabas_pipelines.tables.delta import DeltaTable

        self.job = job
        self.before_reading: Callable[[], None] = lambda: None
        self.archiver: Archiver = Archiver(
            DeltaTable(job.spark, str(job.path)),
            ClusterFacts(job.bootstrap, {}),
            [topic],
            self._read,
            job.said.append,
            first_offsets="earliest",
            limit=None,
            is_loss_allowed=False,
            reads_committed=False,
        )

    def _read(self, starts: "Ends", ends: "Ends") -> "DataFrame":
        from barnabas_pipelines.archive.batches import range_options
        from barnabas_pipelines.sources import read_topic

        self.before_reading()
        options = {"kafka.bootstrap.servers": self.job.bootstrap, "includeHeaders": "true"}
        return read_topic(self.job.spark, options | range_options(starts, ends), via="python")


def test_a_writer_that_was_overtaken_writes_nothing(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Delta would leave its rows out without a word: the other's commit was there before."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(20, 2))
    slow, quick = Writer(job, topic), Writer(job, topic)
    assert slow.archiver.batch(None) is not None
    records.produce(job.bootstrap, topic, awkward_records(10, 2))
    slow.before_reading = lambda: _one_batch(quick.archiver)
    with pytest.raises(SecondWriterError, match="another job has written"):
        slow.archiver.batch(None)
    assert job.rows() == expected(job.bootstrap, topic)
    slow.before_reading = lambda: None
    assert slow.archiver.batch(None) is None, "it goes on where the other has come to"


def _one_batch(archiver: "Archiver") -> None:
    assert archiver.batch(None) is not None


def test_of_writers_that_begin_a_table_at_once_one_is_refused(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """Both in the same instant, as far as threads can."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(40, 2))
    barrier = threading.Barrier(2)
    outcomes: list[Any] = []

    def write() -> None:
        writer = Writer(job, topic)
        writer.before_reading = lambda: barrier.wait(60) and None
        try:
            outcomes.append(writer.archiver.batch(None))
        except PipelineError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(isinstance(one, SecondWriterError) for one in outcomes) == [False, True], outcomes
    assert job.rows() == expected(job.bootstrap, topic)


def test_of_a_topic_made_anew_while_it_is_read_nothing_is_written(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """The offsets fit by chance; the records are others."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(10, 1))
    writer = Writer(job, topic)

    def make_anew() -> None:
        records.delete_topic(job.bootstrap, topic)
        new_topic(name=topic, configs=KEPT)
        records.produce(job.bootstrap, topic, awkward_records(30, 1))

    writer.before_reading = make_anew
    with pytest.raises(TopicGoneError, match="made anew"):
        writer.archiver.batch(None)
    assert not job.path.exists()


def test_a_batch_that_somebody_takes_the_table_back_under_is_told(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """Delta lets the append pass: its mark would claim what RESTORE has taken away."""
    topic = new_topic(configs=KEPT)
    writer = Writer(job, topic)
    for _ in range(2):
        records.produce(job.bootstrap, topic, awkward_records(5, 1))
        _one_batch(writer.archiver)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    writer.before_reading = lambda: job.table().restore(0) and None
    for _ in range(2):
        with pytest.raises(TableChangedError, match=r"\(RESTORE\).*RESTORE it to version 2"):
            writer.archiver.batch(None)
    writer.before_reading = lambda: None
    job.table().restore(2)
    _one_batch(writer.archiver)
    assert job.rows() == expected(job.bootstrap, topic)


def test_two_whole_jobs_race(
    job: ArchiveJob, new_topic: NewTopic, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever loses says so in one line with exit code 1; the table is that of one."""
    topic = new_topic(partitions=3, configs=KEPT)
    arguments = ["--bootstrap-servers", job.bootstrap, "--topics", topic, "--path", str(job.path)]
    arguments += ["--max-offsets-per-trigger", "40", "--via", "python"]
    for number in range(ROUNDS):
        records.produce(job.bootstrap, topic, awkward_records(120, 3))
        with ThreadPoolExecutor(2) as racers:
            codes = list(racers.map(main, [archive.JOB] * 2, [arguments] * 2))
        told = capfd.readouterr().err
        assert sorted(codes) in ([0, 0], [0, 1]), (codes, told)
        assert told.count("another job has written") == sum(codes), told
        assert job.rows() == expected(job.bootstrap, topic), f"round {number}"

"""`archive` through a real broker: what is in the files is what is in the topic, once."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_client import TopicPartition
from barnabas_client.admin import Admin
from barnabas_pipelines.errors import DataLossError, OptionsError, PipelineError, TopicGoneError
from tests.pipelines.spark import records
from tests.pipelines.spark.archive_job import (
    DAY_MS,
    KEPT,
    NOON_MS,
    ArchiveJob,
    awkward_records,
    expected,
)
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]


@pytest.fixture(name="job")
def a_job(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path) -> ArchiveJob:
    """An archive that does not exist yet."""
    return ArchiveJob(spark, broker.bootstrap, tmp_path / "an archive")


@pytest.mark.parametrize("via", ["connector", "python"])
def test_every_record_is_archived_as_it_is_and_runs_go_on(
    job: ArchiveJob, new_topic: NewTopic, via: str
) -> None:
    """Null and empty are different things, headers have an order, milliseconds count."""
    topic = new_topic(partitions=3, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(120, 3))
    job.run(topic, via=via)
    assert job.rows() == expected(job.bootstrap, topic)
    assert {path.parent.name for path in job.files()} == {
        "dt=2026-01-01",
        "dt=2026-01-02",
        "dt=2026-01-03",
    }
    records.produce(job.bootstrap, topic, awkward_records(50, 2))
    job.run(topic, via=via, verify=True)
    job.run(topic, via=via)
    assert job.rows() == expected(job.bootstrap, topic)
    assert job.batches() == [0, 1]


def test_columns_have_types_that_any_reader_knows(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Spark's default for timestamps is one that only old programs want."""
    import pyarrow.dataset as dataset

    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic)
    schema = dataset.dataset(str(job.path), partitioning="hive").schema
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "key": "binary",
        "value": "binary",
        "headers": "list<element: struct<key: string, value: binary>>",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "batch": "int32",
        "dt": "string",
    }
    frame = job.spark.read.parquet(str(job.path))
    assert frame.count() == 5


def test_small_batches_have_one_file_a_day(job: ArchiveJob, new_topic: NewTopic) -> None:
    """One per partition and day would be ninety."""
    topic = new_topic(partitions=30, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(300, 30))
    job.run(topic)
    assert len(job.files()) == 3
    assert job.rows() == expected(job.bootstrap, topic)


def test_no_file_is_larger_than_allowed(job: ArchiveJob, new_topic: NewTopic) -> None:
    """A long backlog of one partition, whose records grow on the way, is split by weight."""
    topic = new_topic(configs=KEPT)
    chance = random.Random(1)
    sent = [
        RecordToSend(value=chance.randbytes(50 if number < 300 else 2000), timestamp_ms=NOON_MS)
        for number in range(500)
    ]
    records.produce(job.bootstrap, topic, sent)
    sizes = {"file-size-target": 30_000, "file-size-maximum": 60_000}
    job.run(topic, **sizes)
    found = [path.stat().st_size for path in job.files()]
    assert max(found) <= 60_000
    assert len(found) <= 50  # about 14 would do, were all records of one size
    records.produce(job.bootstrap, topic, sent)
    job.run(topic, **sizes)
    assert max(path.stat().st_size for path in job.files()) <= 60_000
    assert job.rows() == expected(job.bootstrap, topic)


@pytest.mark.parametrize("via", ["connector", "python"])
def test_a_lost_checkpoint_costs_nothing(job: ArchiveJob, new_topic: NewTopic, via: str) -> None:
    """The archive knows how far it reaches; beginning at the earliest offset would double it."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(40, 2))
    job.run(topic, via=via)
    shutil.rmtree(job.checkpoint)
    records.produce(job.bootstrap, topic, awkward_records(20, 2))
    job.run(topic, via=via)
    assert job.rows() == expected(job.bootstrap, topic)
    assert job.batches() == [0, 1]


def test_a_lost_commit_and_a_batch_in_other_portions_double_nothing(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """Spark runs the batch again; or another checkpoint cuts the topic elsewhere."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(40, 2))
    job.run(topic, **{"max-offsets-per-trigger": 10})
    before = job.rows()
    newest = max(job.checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    job.run(topic)
    assert f"archive: batch {newest.name} was archived already" in job.said
    records.produce(job.bootstrap, topic, awkward_records(10, 2))
    earliest = {"starting-offsets": "earliest", "checkpoint": str(job.path.parent / "another")}
    job.run(topic, **earliest)
    assert job.rows()[: len(before)] != []
    assert job.rows() == expected(job.bootstrap, topic)


def test_a_topic_that_was_made_anew_is_refused(job: ArchiveJob, new_topic: NewTopic) -> None:
    """By name alone, its first records would count as archived, and be missing."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic)
    before = job.rows()
    records.delete_topic(job.bootstrap, topic)
    new_topic(name=topic, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(9, 1))
    with pytest.raises(PipelineError, match="made anew"):
        job.run(topic)
    assert job.rows() == before


def test_records_that_retention_took_are_told(job: ArchiveJob, new_topic: NewTopic) -> None:
    """With their number, before anything is read; going on without them has to be wished."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic)
    records.produce(job.bootstrap, topic, awkward_records(10, 1))
    records.delete_records(job.bootstrap, {(topic, 0): 8})
    with pytest.raises(DataLossError, match=r"ends at offset 5, the topic begins at 8, 3 offsets"):
        job.run(topic)
    job.run(topic, **{"fail-on-data-loss": False})
    assert [row[2] for row in job.rows()] == [*range(5), *range(8, 15)]


def test_several_topics_share_an_archive(job: ArchiveJob, new_topic: NewTopic) -> None:
    """One can be added later; each goes on by itself."""
    first, second = new_topic(configs=KEPT), new_topic(partitions=2, configs=KEPT)
    for topic in (first, second):
        records.produce(job.bootstrap, topic, awkward_records(6, 1))
    job.run(first)
    shutil.rmtree(job.checkpoint)
    job.run(first, second)
    wanted = expected(job.bootstrap, first) + expected(job.bootstrap, second)
    assert job.rows() == sorted(wanted, key=lambda row: row[:3])


def test_timestamps_of_other_ages_have_days_too(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Producers with seconds or microseconds for milliseconds are common."""
    topic = new_topic(configs={**KEPT, "message.timestamp.after.max.ms": str(2**62)})
    moments = [0, 1, DAY_MS - 1, DAY_MS, 1_700_000_000, 253_402_300_800_000]
    sent = [RecordToSend(value=b"x", timestamp_ms=moment) for moment in moments]
    records.produce(job.bootstrap, topic, sent)
    job.run(topic)
    days = [path.parent.name for path in job.files()]
    assert days == ["dt=+10000-01-01", "dt=1970-01-01", "dt=1970-01-02", "dt=1970-01-20"]
    frame = job.spark.read.parquet(str(job.path))
    assert frame.count() == len(moments)


def test_progress_shows_in_a_group(job: ArchiveJob, new_topic: NewTopic) -> None:
    """So that lag is seen where people look for it."""
    import asyncio

    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(10, 2))
    group = f"{topic}-archive"
    job.run(topic, group=group)

    async def committed() -> dict[TopicPartition, int]:
        async with Admin(job.bootstrap) as admin:
            found = (await admin.group_offsets.list([group]))[group].unwrap()
            return {key: one.offset for key, one in found.items() if one is not None}

    assert asyncio.run(committed()) == {
        TopicPartition(topic, 0): 5,
        TopicPartition(topic, 1): 5,
    }


def test_what_cannot_be_archived_is_told_before_it_starts(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """A topic that is not there; sizes that contradict each other."""
    with pytest.raises(TopicGoneError, match="no-such-topic"):
        job.run("no-such-topic")
    topic = new_topic()
    with pytest.raises(OptionsError, match="more than"):
        job.run(topic, **{"file-size-target": "2 GiB"})
    assert not job.path.exists()

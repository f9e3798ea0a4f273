"""`archive` through a real broker: what is in the table is what is in the topic, once."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas_client import TopicPartition
from barnabas_client.admin import Admin
from barnabas_pipelines.errors import (
    DataLossError,
    OptionsError,
    PipelineError,
    TopicGoneError,
)
from barnabas_pipelines.jobs.cluster_facts import ClusterFacts
from barnabas_pipelines.tables.local import local_table
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
from tests.pipelines.spark.segments import cut_segment
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

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
    assert job.days() == {"2026-01-01", "2026-01-02", "2026-01-03"}
    assert job.table().metadata().partition_columns == ["topic", "dt"]
    records.produce(job.bootstrap, topic, awkward_records(50, 2))
    job.run(topic, via=via, verify=True)
    assert any("each once and the same as in the topic" in line for line in job.said), job.said
    assert job.rows() == expected(job.bootstrap, topic)
    version = job.table().version()
    job.run(topic, via=via)
    assert job.table().version() == version, "nothing new, nothing written"


def test_a_path_may_be_relative(job: ArchiveJob, new_topic: NewTopic) -> None:
    """As in the examples of the docs; SQL takes no such path for a table."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic, path=os.path.relpath(job.path), optimize=True, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_columns_have_types_that_any_reader_knows(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Spark's default for timestamps is one that only old programs want."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic)
    schema = job.table().to_pyarrow_dataset().schema
    assert {name: str(schema.field(name).type) for name in schema.names} == {
        "key": "binary",
        "value": "binary",
        "headers": "list<element: struct<key: string, value: binary>>",
        "topic": "string",
        "topic_id": "string",
        "partition": "int32",
        "leader_epoch": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "dt": "string",
    }
    ids = set(job.table().to_pyarrow_table(columns=["topic_id"])["topic_id"].to_pylist())
    assert ids == {ClusterFacts(job.bootstrap, {}).topic_ids([topic])[topic]}


def test_small_batches_have_one_file_a_day(job: ArchiveJob, new_topic: NewTopic) -> None:
    """One per partition and day would be ninety."""
    topic = new_topic(partitions=30, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(300, 30))
    job.run(topic)
    assert len(job.files()) == 3
    assert job.rows() == expected(job.bootstrap, topic)


def test_files_are_of_the_size_that_was_asked_for(job: ArchiveJob, new_topic: NewTopic) -> None:
    """What is written at once is cut, what was written in bits is put together."""
    topic = new_topic(configs=KEPT)
    chance = random.Random(1)
    sent = [RecordToSend(value=chance.randbytes(2000), timestamp_ms=NOON_MS) for _ in range(300)]
    records.produce(job.bootstrap, topic, sent)
    job.run(topic, **{"max-offsets-per-trigger": 150})
    assert len(job.files()) == 2
    job.run(topic, optimize=True)
    assert len(job.files()) == 1
    assert "archive: optimized: 1 files in place of 2" in job.said
    records.produce(job.bootstrap, topic, sent)
    job.run(topic, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_old_versions_can_be_read_until_they_are_vacuumed(
    job: ArchiveJob, new_topic: NewTopic, spark: "SparkSession"
) -> None:
    """A reader may go back in time; files that nobody wants any more go."""
    topic = new_topic(configs=KEPT)
    for count in (5, 3):
        records.produce(job.bootstrap, topic, awkward_records(count, 1))
        job.run(topic)
    job.run(topic, optimize=True)
    assert job.table(0).to_pyarrow_table().num_rows == 5
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    try:
        job.run(topic, vacuum="1ms")
    finally:
        spark.conf.unset(check)
    assert sorted(job.path.rglob("*.parquet")) == sorted(job.files())
    job.run(topic, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_somebody_elses_commits_between_ours_change_nothing(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """Files put together, a property set, an old day deleted; the table is found to end there."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(30, 2))
    job.run(topic)
    job.table().optimize.compact()
    job.spark.sql(f"ALTER TABLE delta.`{job.path}` SET TBLPROPERTIES ('made.by' = 'hand')")
    job.table().delete("dt = '2026-01-01'")
    left = job.rows()
    assert 0 < len(left) < 30
    records.produce(job.bootstrap, topic, awkward_records(10, 2))
    job.run(topic)
    new = [row for row in expected(job.bootstrap, topic) if row[2] >= 15]
    assert job.rows() == sorted(left + new, key=lambda row: row[:3])


def test_a_table_that_was_taken_back_gets_what_it_lost(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """RESTORE removes rows that a commit says are there: the job goes on where it was taken to."""
    topic = new_topic(configs=KEPT)
    for count in (5, 6, 7):
        records.produce(job.bootstrap, topic, awkward_records(count, 1))
        job.run(topic)
    job.table().restore(0)
    assert len(job.rows()) == 5
    job.run(topic, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_a_table_whose_history_was_cleaned_away_goes_on(
    job: ArchiveJob, new_topic: NewTopic
) -> None:
    """Delta keeps a month of it; then the rows themselves say how far the table reaches."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic)
    job.spark.sql(f"ALTER TABLE delta.`{job.path}` SET TBLPROPERTIES ('made.by' = 'hand')")
    job.table().create_checkpoint()
    (job.path / "_delta_log" / f"{0:020d}.json").unlink()
    without_mark = local_table(str(job.path))
    assert without_mark is not None
    assert without_mark.mark is None
    assert without_mark.topics == [topic], "a replay can still be planned"
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_a_table_of_somebody_else_is_left_alone(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Be it of another program, or of another job of ours."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.spark.range(3).write.format("delta").save(str(job.path))
    with pytest.raises(PipelineError, match="somebody else"):
        job.run(topic)
    assert job.table().version() == 0


def test_portions_make_the_table_that_one_batch_makes(job: ArchiveJob, new_topic: NewTopic) -> None:
    """Each is a commit, and each says how far the table reaches."""
    topic = new_topic(partitions=2, configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(40, 2))
    job.run(topic, **{"max-offsets-per-trigger": 10})
    assert job.table().version() == 3
    records.produce(job.bootstrap, topic, awkward_records(10, 2))
    job.run(topic, **{"starting-offsets": "latest"})
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
    job.run(topic, verify=True, **{"fail-on-data-loss": False})
    assert any("goes on without" in line for line in job.said)
    assert any("3 offsets were gone before they were read" in line for line in job.said)
    assert [row[2] for row in job.rows()] == [*range(5), *range(8, 15)]


@pytest.mark.parametrize("via", ["connector", "python"])
def test_an_empty_topic_is_archived(job: ArchiveJob, new_topic: NewTopic, via: str) -> None:
    """There is nothing to read, but how far the table reaches is noted: at first, and at a gap."""
    topic = new_topic(partitions=2, configs=KEPT)
    job.run(topic, via=via, verify=True)
    assert (job.rows(), job.table().version()) == ([], 0)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    records.delete_records(job.bootstrap, {(topic, 0): 5})
    with pytest.raises(DataLossError, match="5 offsets are gone"):
        job.run(topic, via=via)
    job.run(topic, via=via, verify=True, **{"fail-on-data-loss": False})
    assert any("5 offsets were gone before they were read" in line for line in job.said)
    records.produce(job.bootstrap, topic, awkward_records(5, 1))
    job.run(topic, via=via, verify=True)
    assert job.rows() == expected(job.bootstrap, topic)


def test_no_option_of_the_source_leaves_records_out(job: ArchiveJob, new_topic: NewTopic) -> None:
    """A timestamp goes before offsets: older records were left out and told to be archived."""
    topic = new_topic(configs=KEPT)
    records.produce(job.bootstrap, topic, awkward_records(120, 1))
    with pytest.raises(OptionsError, match="startingTimestamp is decided here"):
        job.run(topic, via="python", **{"source-option": {"startingTimestamp": NOON_MS + DAY_MS}})


def test_names_of_topics_are_what_they_are(job: ArchiveJob, new_topic: NewTopic) -> None:
    """They name folders, of which one means that there is no name."""
    names = ["a.b_c-D", "-x", "..x", "null", "2026-01-01", ".hidden"]
    for name in names:
        new_topic(name=name, configs=KEPT)
        records.produce(job.bootstrap, name, awkward_records(5, 1))
    job.run(*names, verify=True)
    wanted = [row for name in names for row in expected(job.bootstrap, name)]
    assert job.rows() == sorted(wanted, key=lambda row: row[:3])
    with pytest.raises(OptionsError, match="no topic at all"):
        job.run("__HIVE_DEFAULT_PARTITION__")


def test_a_topic_that_was_cut_and_has_grown_again_is_told(
    spark: "SparkSession", own_broker: BarnabasProcess, tmp_path: Path
) -> None:
    """As by an unclean election: the offsets fit, and what is at those that are archived does not.

    What retention has taken since, --verify cannot compare.
    """
    job = ArchiveJob(spark, own_broker.bootstrap, tmp_path / "archive")
    records.create_topic(job.bootstrap, "cut", 1, dict(KEPT))
    for _ in range(2):
        records.produce(job.bootstrap, "cut", awkward_records(5, 1))
    job.run("cut")
    own_broker.kill()
    (segment,) = own_broker.data_directory.rglob("cut-0/*.log")
    cut_segment(segment, 5)
    own_broker.start()
    for _ in range(2):
        records.produce(job.bootstrap, "cut", awkward_records(8, 1))
    records.delete_records(job.bootstrap, {("cut", 0): 8})
    before = job.rows()
    with pytest.raises(PipelineError, match="lost the records from offset 8 on, and has others"):
        job.run("cut", verify=True)
    assert job.rows() == before


def test_several_topics_share_an_archive(job: ArchiveJob, new_topic: NewTopic) -> None:
    """One can be added later; each goes on by itself."""
    first, second = new_topic(configs=KEPT), new_topic(partitions=2, configs=KEPT)
    for topic in (first, second):
        records.produce(job.bootstrap, topic, awkward_records(6, 1))
    job.run(first)
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
    assert job.days() == {"+10000-01-01", "1970-01-01", "1970-01-02", "1970-01-20"}
    frame = job.spark.read.format("delta").load(str(job.path))
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


def test_what_cannot_be_archived_is_told_before_it_starts(job: ArchiveJob) -> None:
    """A topic that is not there."""
    with pytest.raises(TopicGoneError, match="no-such-topic"):
        job.run("no-such-topic")
    assert not job.path.exists()

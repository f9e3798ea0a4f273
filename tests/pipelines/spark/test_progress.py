"""Groups show how far queries are: at the end, never ahead, after a crash, for both sources."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from barnabas_client import OffsetAndMetadata, TopicPartition
from barnabas_client.admin import Admin
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.offsets import offsets_of_checkpoint
from barnabas_pipelines.progress import attach
from barnabas_pipelines.sources import read_topic_stream
from barnabas_pipelines.storage.file_store import LocalFiles
from tests.pipelines.spark import records
from tests.pipelines.spark.group_lag import committed, described
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_tools import ToolCall, run_tools
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

PARTITIONS = 3
NewTopic = Callable[..., str]


def fill(broker: BarnabasProcess, topic: str, count: int) -> None:
    """So many more records in each partition."""
    some = [RecordToSend(value=b"v", partition=number % PARTITIONS) for number in range(count * 3)]
    records.produce(broker.bootstrap, topic, some)


def stream(
    spark: "SparkSession", broker: BarnabasProcess, topic: str, via: str = "connector", **more: str
) -> "DataFrame":
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    return read_topic_stream(spark, {**options, **more}, via=via)


def start(frame: "DataFrame", name: str, checkpoint: Path, **trigger: Any) -> "StreamingQuery":
    writer = frame.writeStream.queryName(name).format("noop")
    chosen = trigger or {"availableNow": True}
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**chosen).start()


def offsets(topic: str, offset: int) -> dict[tuple[str, int], int]:
    return {(topic, number): offset for number in range(PARTITIONS)}


def checkpointed(checkpoint: Path) -> dict[tuple[str, int], int]:
    found = offsets_of_checkpoint(LocalFiles(checkpoint))
    return {(one.topic, one.partition): offset for one, offset in found.items()}


@pytest.mark.parametrize("via", ["connector", "python"])
def test_lag_is_zero_when_a_query_has_read_all_there_is(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path, via: str
) -> None:
    """The last batch counts, too: `awaitTermination` returns before Spark tells of it."""
    topic, group = new_topic(PARTITIONS), f"all-{via}"
    fill(broker, topic, 50)
    committer = attach(spark, bootstrap_servers=broker.bootstrap, groups={"all": group})
    query = start(stream(spark, broker, topic, via, maxOffsetsPerTrigger="60"), "all", tmp_path)
    query.awaitTermination()
    assert committer.close()
    assert committer.close()
    assert committed(broker.bootstrap, group) == offsets(topic, 50) == checkpointed(tmp_path)
    (found,) = described(broker.bootstrap, group)
    lags = {row["partition"]: row["lag"] for row in found["partition_list"]}
    assert lags == {0: 0, 1: 0, 2: 0}


def test_kafka_s_own_tool_shows_how_far_a_query_is(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Who looks after queries need not know ours: four more records are a lag of four."""
    topic, group = new_topic(PARTITIONS), "seen-by-kafka"
    fill(broker, topic, 7)
    committer = attach(spark, bootstrap_servers=broker.bootstrap, groups={"seen": group})
    start(stream(spark, broker, topic), "seen", tmp_path / "a").awaitTermination()
    assert committer.close()
    fill(broker, topic, 4)
    call = ("--bootstrap-server", broker.bootstrap, "--describe", "--group", group)
    (told,) = run_tools([ToolCall("groups", call)], tmp_path / "tools")
    rows = [line.split()[:6] for line in told.output.splitlines() if line.startswith(group)]
    assert sorted(rows) == [[group, topic, str(number), "7", "11", "4"] for number in range(3)]


def test_a_query_that_goes_on_shows_lag_and_catches_up(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Each batch moves the group; one committer serves several queries, by their names."""
    topic, other = new_topic(PARTITIONS), new_topic(PARTITIONS)
    fill(broker, topic, 10)
    fill(broker, other, 5)
    groups = {"going": "going-group", "other": "other-group"}
    committer = attach(spark, bootstrap_servers=broker.bootstrap, groups=groups)
    every = {"processingTime": "200 milliseconds"}
    queries = [
        start(stream(spark, broker, topic), "going", tmp_path / "a", **every),
        start(stream(spark, broker, other, "python"), "other", tmp_path / "b", **every),
        start(stream(spark, broker, other), "unknown", tmp_path / "c", **every),
    ]

    def wait_for(group: str, topic: str, offset: int) -> None:
        wait_until(
            lambda: committed(broker.bootstrap, group) == offsets(topic, offset),
            60,
            lambda: f"{group}: {committed(broker.bootstrap, group)}",
        )

    wait_for("going-group", topic, 10)
    wait_for("other-group", other, 5)
    fill(broker, topic, 7)
    wait_for("going-group", topic, 17)
    # A query that still runs is not waited for.
    assert committer.close()
    for query in queries:
        query.stop()
    assert committed(broker.bootstrap, "other-group") == offsets(other, 5)


def test_a_failed_batch_does_not_count(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Its offsets are in the checkpoint's plan, not among what is done."""
    topic = new_topic(PARTITIONS)
    fill(broker, topic, 10)
    committer = attach(spark, bootstrap_servers=broker.bootstrap, groups={"fails": "fails-group"})

    def write(batch: "DataFrame", batch_id: int) -> None:
        if batch_id == 1:
            raise ValueError("batch 1 is bad")

    frame = stream(spark, broker, topic, maxOffsetsPerTrigger="15")
    writer = frame.writeStream.queryName("fails").foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="batch 1 is bad"):
        query.awaitTermination()
    assert committer.close()
    assert committed(broker.bootstrap, "fails-group") == offsets(topic, 5)


def test_a_killed_driver_leaves_the_group_behind_the_checkpoint_until_it_is_back(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Ahead would hide records that are not done. Who starts again has the group right at once."""
    topic, group = new_topic(PARTITIONS), "killed-group"
    fill(broker, topic, 60)
    arguments = [broker.bootstrap, topic, group, str(tmp_path)]
    command = [sys.executable, "-m", "tests.pipelines.spark.killed_driver", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == -9, done.stderr[-3000:]
    behind, at = committed(broker.bootstrap, group), checkpointed(tmp_path)
    assert sum(behind.values()) < sum(at.values()) < 3 * 60
    assert all(behind[place] <= offset for place, offset in at.items())

    def run_again() -> dict[tuple[str, int], int]:
        committer = attach(spark, bootstrap_servers=broker.bootstrap, groups={"killed": group})
        start(stream(spark, broker, topic), "killed", tmp_path).awaitTermination()
        assert committer.close()
        return committed(broker.bootstrap, group)

    assert run_again() == offsets(topic, 60)
    # As if the driver had died after the last batch: nothing is left that would make a batch.
    set_offset(broker, group, topic, 1)
    assert run_again() == offsets(topic, 60)


def set_offset(broker: BarnabasProcess, group: str, topic: str, offset: int) -> None:
    async def change() -> None:
        async with Admin(broker.bootstrap) as admin:
            wanted = {
                TopicPartition(topic, number): OffsetAndMetadata(offset)
                for number in range(PARTITIONS)
            }
            (await admin.group_offsets.alter(group, wanted)).unwrap()

    asyncio.run(change())


def test_brokers_that_are_away_do_not_harm_the_query(
    spark: "SparkSession",
    broker: BarnabasProcess,
    own_broker: BarnabasProcess,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    """The group is on another broker here, so that only the commits suffer."""
    topic = new_topic(PARTITIONS)
    records.create_topic(own_broker.bootstrap, topic, PARTITIONS, {})
    own_broker.stop()
    fill(broker, topic, 10)
    committer = attach(spark, bootstrap_servers=own_broker.bootstrap, groups={"away": "away-group"})
    every = {"processingTime": "200 milliseconds"}
    query = start(stream(spark, broker, topic), "away", tmp_path, **every)
    for _ in range(2):
        query.processAllAvailable()
        fill(broker, topic, 10)
    query.processAllAvailable()
    assert checkpointed(tmp_path) == offsets(topic, 30)
    own_broker.start()
    query.stop()
    assert committer.close(60)
    assert committed(own_broker.bootstrap, "away-group") == offsets(topic, 30)


def test_a_group_needs_a_name(spark: "SparkSession") -> None:
    """An empty one would be refused by every broker, batch after batch."""
    for groups in ({}, {"query": ""}, {"": "group"}):
        with pytest.raises(OptionsError, match="groups"):
            attach(spark, bootstrap_servers="localhost:1", groups=groups)

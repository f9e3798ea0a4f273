"""Streaming reads: limits, AvailableNow, the checkpoint, and topics that change meanwhile."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipelines.spark import records
from tests.pipelines.spark.reading import Stream, add_partitions, numbered
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
Produce = Callable[..., object]


@pytest.fixture
def stream(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path) -> Stream:
    return Stream(spark, broker.bootstrap, tmp_path)


def batch_sizes(query: "StreamingQuery") -> list[int]:
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


def end_offsets(query: "StreamingQuery") -> dict[str, dict[str, int]]:
    """What the checkpoint holds after the last batch."""
    assert query.lastProgress is not None
    topics: dict[str, Any] = json.loads(query.lastProgress.sources[0].endOffset)["topics"]
    return {topic: entry["offsets"] for topic, entry in topics.items()}


def wait_for_rows(stream: Stream, count: int, query: "StreamingQuery") -> None:
    def is_there() -> bool:
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))
        is_begun = (stream.folder / "table" / "_spark_metadata").exists()
        return is_begun and len(stream.written()) >= count

    wait_until(is_there, 60, lambda: f"not {count} rows; {query.status}")


def test_batches_keep_to_the_limit_and_are_shared_by_backlog(
    stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """No first run that reads everything at once; partitions are done together."""
    topic = new_topic(partitions=2)
    produce(topic, numbered(300))
    query = stream.run(topic, maxOffsetsPerTrigger=70)
    assert batch_sizes(query) == [70, 70, 70, 70, 20]
    assert [int(value) for _, _, _, value in stream.written()] == list(range(300))
    assert end_offsets(query) == {topic: {"0": 300, "1": 0}}


def test_a_restart_goes_on_at_the_checkpoint(
    stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """Each record once, whatever startingOffsets says by then; nothing new is no error."""
    topic = new_topic(partitions=3)
    for start in (0, 30, 60):
        produce(topic, numbered(30, 3, start=start))
        stream.run(topic)
    stream.run(topic, startingOffsets="latest")
    values = sorted(int(value) for _, _, _, value in stream.written())
    assert values == list(range(90))


def test_a_stream_adds_nothing_to_what_all_streams_share(
    spark: "SparkSession", stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """Two that start together would each add it to a map without a lock, and break all reading."""
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    shared = manager.lookupDataSource("barnabas").dataSourceCls().envVars()
    before = set(shared)
    topic = new_topic()
    produce(topic, numbered(5))
    stream.run(topic)
    assert len(stream.written()) == 5
    assert set(shared) == before


def test_latest_is_kept_when_nothing_has_come_yet(
    stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """What comes while the query is down was promised to it."""
    topic = new_topic()
    produce(topic, numbered(5))
    stream.run(topic, startingOffsets="latest")
    produce(topic, numbered(5, start=5))
    stream.run(topic, startingOffsets="latest")
    assert [int(value) for _, _, _, value in stream.written()] == list(range(5, 10))


def test_a_running_query_sees_new_records_partitions_and_topics(
    stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
) -> None:
    """Each begins at its first record, without a restart."""
    new_topic(name="growing-1")
    produce("growing-1", numbered(10))
    trigger = {"processingTime": "1 second"}
    query = stream.start("growing-.*", trigger, by="subscribePattern")
    try:
        wait_for_rows(stream, 10, query)
        asyncio.run(add_partitions(broker.bootstrap, "growing-1", 2))
        produce("growing-1", numbered(20, 2, start=10))
        wait_for_rows(stream, 30, query)
        produce(new_topic(name="growing-2"), numbered(10, start=30))
        wait_for_rows(stream, 40, query)
    finally:
        query.stop()
    assert sorted(int(value) for _, _, _, value in stream.written()) == list(range(40))


def test_a_pause_for_a_minimum_ends_with_the_delay(
    stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """A minimum keeps files large, its maxTriggerDelay the table fresh."""
    topic = new_topic()
    produce(topic, numbered(10))
    trigger = {"processingTime": "200 milliseconds"}
    query = stream.start(topic, trigger, minOffsetsPerTrigger=1000, maxTriggerDelay="3s")
    try:
        wait_for_rows(stream, 10, query)
        produce(topic, numbered(10, start=10))
        wait_for_rows(stream, 20, query)
    finally:
        query.stop()


def test_what_is_written_while_it_runs_is_not_read_with_available_now(
    stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
) -> None:
    """Else a job that runs from time to time might never end."""
    topic = new_topic()
    produce(topic, numbered(50))

    def write_more(frame: Any, batch_id: int) -> None:
        records.produce(broker.bootstrap, topic, numbered(10, start=1000))
        sizes.append(frame.count())

    sizes: list[int] = []
    query = (
        stream.spark.readStream.format("barnabas")
        .option("bootstrapServers", broker.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20")
        .load()
        .writeStream.foreachBatch(write_more)
        .option("checkpointLocation", str(stream.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert sizes == [20, 20, 10]


def test_progress_tells_the_ends_of_the_topics(
    stream: Stream, new_topic: NewTopic, produce: Produce
) -> None:
    """For lag: what the query has and what there is."""
    topic = new_topic()
    produce(topic, numbered(30))
    query = stream.run(topic, maxOffsetsPerTrigger=20)
    first = query.recentProgress[0].sources[0]
    assert json.loads(first.endOffset)["topics"][topic]["offsets"] == {"0": 20}
    assert json.loads(first.latestOffset)["topics"][topic]["offsets"] == {"0": 30}


def test_a_first_batch_that_failed_begins_where_it_did(
    stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
) -> None:
    """Spark keeps its end only, and asks again where to begin: that is elsewhere by then."""
    from pyspark.errors import StreamingQueryException

    topic = new_topic()
    produce(topic, numbered(5))
    found: list[list[int]] = []

    def write(frame: Any, batch_id: int) -> None:
        found.append([row.offset for row in frame.select("offset").orderBy("offset").collect()])
        if len(found) == 1:
            raise RuntimeError("the sink is away")

    def run(is_lossy: str) -> None:
        query = (
            stream.spark.readStream.format("barnabas")
            .option("bootstrapServers", broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", is_lossy)
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(stream.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)

    with pytest.raises(StreamingQueryException, match="the sink is away"):
        run("true")
    records.delete_records(broker.bootstrap, {(topic, 0): 2})
    with pytest.raises(StreamingQueryException, match="wanted from offset 0"):
        run("true")
    run("false")
    assert found == [[0, 1, 2, 3, 4], [2, 3, 4]]

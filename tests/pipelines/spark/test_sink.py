"""The sink of `format("barnabas")`: what arrives, what is refused, what a failure leaves."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from barnabas_client import ConsumerRecord
from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.sinks import write_topic, write_topic_stream
from barnabas_pipelines.sources import read_topic, read_topic_stream
from tests.pipelines.spark import records
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
NOBODY = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "1000",
    "kafka.request.timeout.ms": "1000",
}
VIAS = ("connector", "python")
HEADERS = "array(named_struct('key', 'a', 'value', X'01'), named_struct('key', 'a', 'value', null))"


def plain(found: list[ConsumerRecord]) -> list[tuple[Any, ...]]:
    """What does not depend on when and where a record was written."""
    return sorted((str(each.key), str(each.value), each.headers) for each in found)


@pytest.mark.parametrize(
    "sql",
    [
        "select 'text' value",
        "select X'00ff' value, 'text' key",
        "select cast(null as binary) value, X'6b' key",
        f"select 'v' value, 'k' key, {HEADERS} headers, 3 extra",
        "select 'v' value, 1 partition, 'k' key",
        "select cast(id as string) key, 'v' value from range(500)",
    ],
)
def test_both_ways_write_the_same(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, sql: str
) -> None:
    """Partitions, too: a key's hash is the same in every Kafka client."""
    topics = {via: new_topic(3) for via in VIAS}
    for via, topic in topics.items():
        options = {"bootstrapServers": broker.bootstrap, "topic": topic}
        write_topic(spark.sql(sql), options, via=via)
    theirs, ours = (records.consume(broker.bootstrap, topic) for topic in topics.values())
    assert plain(theirs) == plain(ours)
    if any(each.key for each in theirs):
        places = {each.key: each.partition for each in theirs}
        assert {each.key: each.partition for each in ours} == places


@pytest.mark.parametrize(
    ("sql", "topic", "expected"),
    [
        ("select 'v' value", None, "topic option required when no 'topic' attribute is present"),
        ("select 'k' key", "t", "Required attribute 'value' not found"),
        ("select 1 value", "t", "value attribute unsupported type int"),
        ("select 'v' value, 1L partition", "t", r"partition must be a\(n\) int"),
        ("select 'v' value, 'a' headers", "t", "headers attribute unsupported type string"),
        ("select 'v' value, 3 topic", None, "topic attribute unsupported type int"),
        ("select 'v' value, cast(null as string) topic", None, "null topic"),
        ("select 'v' value, -3 partition", "t", "Invalid partition: -3"),
    ],
)
def test_both_ways_refuse_the_same_in_the_same_words(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: NewTopic,
    sql: str,
    topic: str | None,
    expected: str,
) -> None:
    """Who changes `format("kafka")` to `format("barnabas")` finds the errors that they know."""
    options = {"bootstrapServers": broker.bootstrap}
    if topic is not None:
        options["topic"] = new_topic()
    for via in VIAS:
        with pytest.raises((PySparkException, Exception), match=expected):
            write_topic(spark.sql(sql), options, via=via)


def test_what_was_read_is_written_with_its_timestamps(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic
) -> None:
    """Keys, nulls, headers, times and partitions: the same bytes; the connector loses the times."""
    source, target = new_topic(2), new_topic(2)
    sent = [
        RecordToSend(value=b"a", key=None, partition=0, timestamp_ms=1_000),
        RecordToSend(value=None, key=b"tombstone", partition=1, timestamp_ms=0),
        RecordToSend(value=b"\x00\xff", key=b"", partition=1, timestamp_ms=1_700_000_123_456),
        RecordToSend(
            value=b"h", partition=0, timestamp_ms=7, headers=[("x", b"1"), ("x", None), ("", b"")]
        ),
    ]
    records.produce(broker.bootstrap, source, sent)
    options = {"bootstrapServers": broker.bootstrap}
    reading = {**options, "subscribe": source, "includeHeaders": "true"}
    for via in VIAS:
        write_topic(read_topic(spark, reading, via=via), {**options, "topic": target}, via="python")
    original = records.consume(broker.bootstrap, source)
    copies = records.consume(broker.bootstrap, target)

    def content(found: list[ConsumerRecord]) -> list[tuple[Any, ...]]:
        return [
            (each.partition, each.timestamp_ms, each.key, each.value, each.headers)
            for each in found
        ]

    for number in range(2):
        once = [each for each in content(original) if each[0] == number]
        assert [each for each in content(copies) if each[0] == number] == once * 2


def test_rows_go_to_the_topics_of_their_column(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic
) -> None:
    """Many topics in one frame; the order within a key is that of the frame."""
    topics = [new_topic(2) for _ in range(3)]
    names = "array({})[id % 3]".format(", ".join(f"'{topic}'" for topic in topics))
    frame = spark.range(0, 3_000, 1, 1).selectExpr(
        f"{names} topic", "cast(id % 7 as string) key", "cast(id as string) value"
    )
    write_topic(frame, {"bootstrapServers": broker.bootstrap}, via="python")
    for index, topic in enumerate(topics):
        found = records.consume(broker.bootstrap, topic)
        by_key: dict[bytes, list[int]] = {}
        for each in found:
            by_key.setdefault(each.key, []).append(int(each.value))
        assert sorted(int(each.value) for each in found) == list(range(index, 3_000, 3))
        assert all(values == sorted(values) for values in by_key.values())


def test_a_million_rows_of_several_tasks_arrive_once(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic
) -> None:
    """More than buffers hold, so that waiting for room and for answers is part of it."""
    topic, count = new_topic(4), 1_000_000
    frame = spark.range(0, count, 1, 3).selectExpr("repeat('x', 60) value")
    options = {"bootstrapServers": broker.bootstrap, "topic": topic}
    write_topic(frame, {**options, "kafka.buffer.memory": "2000000"}, via="python")
    ends = records.end_offsets(broker.bootstrap, topic)
    assert sum(ends.values()) == count
    assert all(ends.values())


def test_a_stream_is_written_batch_by_batch(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Read by one way and written by the other; started again it goes on where it was."""
    source, target = new_topic(2), new_topic(2)
    options = {"bootstrapServers": broker.bootstrap}
    reading = {
        **options,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
    }

    def run(via: str) -> None:
        stream = read_topic_stream(spark, reading)
        writer = write_topic_stream(
            stream.selectExpr("key", "value", "timestamp"),
            {**options, "topic": target},
            checkpoint=str(tmp_path),
            via=via,
        )
        writer.trigger(availableNow=True).start().awaitTermination()

    for first, via in ((0, "python"), (100, "connector"), (200, "python")):
        some = [RecordToSend(value=b"%d" % number) for number in range(first, first + 100)]
        records.produce(broker.bootstrap, source, some)
        run(via)
        found = records.consume(broker.bootstrap, target)
        assert sorted(int(each.value) for each in found) == list(range(first + 100))


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_aggregates_are_written_in_every_output_mode(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, tmp_path: Path, mode: str
) -> None:
    """As with the connector, what changed, or the whole table, is appended after every batch."""
    source, target = new_topic(1), new_topic(1)
    options = {"bootstrapServers": broker.bootstrap}
    reading = {**options, "subscribe": source, "startingOffsets": "earliest"}
    for key in (b"a", b"b", b"a"):
        records.produce(broker.bootstrap, source, [RecordToSend(key=key, value=b"v")])
        counted = read_topic_stream(spark, reading).groupBy("key").count()
        writer = write_topic_stream(
            counted.selectExpr("key", "cast(count as string) value"),
            {**options, "topic": target},
            checkpoint=str(tmp_path),
            via="python",
            output_mode=mode,
        )
        writer.trigger(availableNow=True).start().awaitTermination()
    found = [(each.key, each.value) for each in records.consume(broker.bootstrap, target)]
    assert found[0] == (b"a", b"1")
    assert (b"b", b"1") in found
    assert (b"a", b"2") in found
    assert len(found) == {"update": 3, "complete": 1 + 2 + 2}[mode]


def test_overwriting_a_topic_is_refused(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic
) -> None:
    """A topic cannot be replaced by a frame; the connector says the same."""
    writer = spark.sql("select 'v' value").write.format("barnabas")
    options = {"bootstrapServers": broker.bootstrap, "topic": new_topic()}
    with pytest.raises(PySparkException, match="Save mode overwrite not allowed"):
        writer.options(**options).mode("overwrite").save()


def test_unknown_options_are_refused(spark: "SparkSession") -> None:
    """Before anything is run, with the nearest name."""
    frame = spark.sql("select 'v' value")
    for via in VIAS:
        with pytest.raises(OptionsError, match="did you mean topic"):
            write_topic(frame, {"bootstrapServers": "localhost:1", "topics": "t"}, via=via)


@pytest.mark.parametrize(
    ("options", "sql", "expected"),
    [
        ({"topic": "is-not-there"}, "select 'v' value", "does not exist, create it first"),
        ({}, "select 'v' value, 99 partition", "no partition 99"),
        ({}, "select repeat('v', 2000000) value", "does not fit"),
        ({}, "select 'v' value, timestamp'1960-01-01' timestamp", "before 1970"),
        (NOBODY, "select 'v' value", "no broker of 127.0.0.1"),
    ],
)
def test_what_is_not_delivered_fails_the_task_with_the_reason(
    spark: "SparkSession",
    broker: BarnabasProcess,
    new_topic: NewTopic,
    options: dict[str, str],
    sql: str,
    expected: str,
) -> None:
    """A row that did not arrive is never counted as written."""
    given = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "topic": new_topic(),
        "kafka.max.block.ms": "2000",
        **options,
    }
    with pytest.raises(PySparkException, match=expected):
        write_topic(spark.sql(sql), given, via="python")


def test_a_failed_task_leaves_what_it_had_written_and_the_next_task_works(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic
) -> None:
    """At least once, and the producer that failed is not used again."""
    topic = new_topic(1)
    options = {"bootstrapServers": broker.bootstrap, "topic": topic}

    frame = spark.range(0, 50_000, 1, 1).selectExpr("cast(id as string) value")
    bad = frame.selectExpr("if(value = '45000', raise_error('this row is bad'), value) value")
    with pytest.raises(PySparkException, match="this row is bad"):
        write_topic(bad, options, via="python")
    write_topic(frame, options, via="python")
    times = Counter(int(each.value) for each in records.consume(broker.bootstrap, topic))
    assert sorted(times) == list(range(50_000))
    assert {times[number] for number in range(45_000, 50_000)} == {1}
    assert max(times.values()) <= 2

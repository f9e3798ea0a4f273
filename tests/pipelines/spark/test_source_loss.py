"""Records that are gone before they were read, and other trouble that a user has to be told of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipelines.spark import records
from tests.pipelines.spark.reading import Stream, numbered, places, read
from tests.support.barnabas_process import BarnabasProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
Produce = Callable[..., object]


@pytest.fixture
def stream(spark: "SparkSession", broker: BarnabasProcess, tmp_path: Path) -> Stream:
    return Stream(spark, broker.bootstrap, tmp_path)


def failure(stream: Stream, topic: str, **options: Any) -> str:
    """The text that the query ends with."""
    from pyspark.errors import StreamingQueryException

    query = stream.start(topic, **options)
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(90)
    return str(raised.value)


def values(stream: Stream) -> list[int]:
    return sorted(int(value) for _, _, _, value in stream.written())


class TestAStream:
    def test_retention_that_passed_the_checkpoint_is_told_with_the_count(
        self, stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
    ) -> None:
        """By default it fails; then it may go on behind the gap, and misses nothing else."""
        topic = new_topic()
        produce(topic, numbered(100))
        stream.run(topic)
        produce(topic, numbered(100, start=100))
        records.delete_records(broker.bootstrap, {(topic, 0): 130})
        text = failure(stream, topic)
        assert "30 records of 1 partitions are gone before they were read" in text
        assert f"{topic}-0: wanted from offset 100, the first there is 130" in text
        assert "failOnDataLoss=false" in text
        stream.run(topic, failOnDataLoss="false", maxOffsetsPerTrigger=50)
        assert values(stream) == [*range(100), *range(130, 200)]

    def test_a_topic_made_anew_is_told_and_read_from_its_beginning(
        self, stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
    ) -> None:
        """Even if it is longer by now than the old one was: its id is another."""
        topic = new_topic()
        produce(topic, numbered(50))
        stream.run(topic)
        records.delete_topic(broker.bootstrap, topic)
        new_topic(name=topic)
        produce(topic, numbered(70, start=1000))
        assert "the topic was deleted and made anew since" in failure(stream, topic)
        stream.run(topic, failOnDataLoss="false")
        assert values(stream) == [*range(50), *range(1000, 1070)]

    def test_a_topic_that_is_gone_is_told_and_may_be_left(
        self, stream: Stream, broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
    ) -> None:
        """The others are read on."""
        gone, kept = new_topic(), new_topic()
        for topic in (gone, kept):
            produce(topic, numbered(10))
        stream.run(f"{gone},{kept}")
        records.delete_topic(broker.bootstrap, gone)
        produce(kept, numbered(5, start=10))
        assert f"{gone}-0: wanted from offset 10" in failure(stream, f"{gone},{kept}")
        stream.run(f"{gone},{kept}", failOnDataLoss="false")
        assert values(stream) == sorted([*range(10), *range(15)])

    def test_a_checkpoint_of_the_connector_is_refused(
        self, stream: Stream, new_topic: NewTopic, produce: Produce
    ) -> None:
        """Its offsets have no topic ids; going on with them might double or lose."""
        topic = new_topic()
        produce(topic, numbered(5))
        offsets = stream.folder / "checkpoint" / "offsets"
        stream.run(topic)
        produce(topic, numbered(5, start=5))
        for file in (*offsets.iterdir(), *(stream.folder / "checkpoint" / "commits").iterdir()):
            if file.name.startswith("."):
                file.unlink()
        head, metadata, _ = (offsets / "0").read_text().split("\n")
        text = "\n".join((head, metadata, json.dumps({topic: {"0": 5}})))
        (offsets / "0").write_text(text)
        assert "a checkpoint of its own" in failure(stream, topic)


class TestABatch:
    def test_an_offset_before_the_first_is_told(
        self, spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
    ) -> None:
        """The range was asked for by number."""
        topic = new_topic()
        produce(topic, numbered(20))
        records.delete_records(broker.bootstrap, {(topic, 0): 8})
        wanted = {"startingOffsets": json.dumps({topic: {"0": 3}})}
        with pytest.raises(Exception, match="5 records of 1 partitions are gone"):
            read(spark, "barnabas", broker.bootstrap, topic, **wanted).count()
        wanted["failOnDataLoss"] = "false"
        ours, theirs = (
            places(read(spark, way, broker.bootstrap, topic, **wanted))
            for way in ("barnabas", "kafka")
        )
        assert ours == theirs == [(0, offset) for offset in range(8, 20)]

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"endingOffsets": {"0": 500, "1": -1}}, "the log ends at"),
            ({"startingOffsets": {"0": 1}}, "startingOffsets leaves out"),
            ({"startingOffsets": {"0": 1, "1": 1, "2": 1}}, "which is not read or not there"),
            ({"startingTimestamp": 2**53}, "no record of"),
            ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist"),
            ({"startingoffset": "earliest"}, "did you mean startingOffsets"),
            ({"kafka__bootstrap__servers": "127.0.0.1:1"}, "the brokers at 127.0.0.1:1 do not"),
        ],
    )
    def test_what_cannot_be_read_is_told_at_once_and_shortly(
        self,
        spark: "SparkSession",
        broker: BarnabasProcess,
        new_topic: NewTopic,
        produce: Produce,
        options: dict[str, object],
        reason: str,
    ) -> None:
        """Spark shows the traceback of a Python error: it is not longer than need be."""
        topic = new_topic(partitions=2)
        produce(topic, numbered(6, 2))
        given = {
            name: json.dumps({topic: value}) if isinstance(value, dict) else value
            for name, value in options.items()
        }
        given["kafka__default__api__timeout__ms"] = 3000
        with pytest.raises(Exception, match=reason) as raised:
            read(spark, "barnabas", broker.bootstrap, topic, **given).count()
        assert len(str(raised.value).splitlines()) < 10

"""The source `barnabas` gives what Spark's Kafka connector gives: same columns, same rows."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipelines.spark import records
from tests.pipelines.spark.reading import places, produce_batches, read, rows
from tests.pipelines.spark.records import RecordToSend
from tests.support.barnabas_process import BarnabasProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NewTopic = Callable[..., str]
Produce = Callable[..., object]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000


def varied(count: int, partitions: int, seed: int) -> list[RecordToSend]:
    """Records with everything that may be missing, empty, large or odd."""
    chance = random.Random(seed)
    return [
        RecordToSend(
            key=chance.choice([None, b"", b"key", "schlüssel".encode()]),
            value=chance.choice([None, b"", b"value", chance.randbytes(3000)]),
            partition=chance.randrange(partitions),
            timestamp_ms=FIRST_MS + number * 1000,
            headers=chance.choice(
                [[], [("name", b"x")], [("", b""), ("größe", None), ("name", b"1"), ("name", b"2")]]
            ),
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def varied_topic(broker: BarnabasProcess) -> str:
    """A topic of four partitions with batches of every codec."""
    # The timestamps are old, which retention must not see.
    records.create_topic(broker.bootstrap, "varied", 4, {"retention.ms": "-1"})
    batches = [(codec, varied(100, 4, seed)) for seed, codec in enumerate(CODECS)]
    asyncio.run(produce_batches(broker.bootstrap, "varied", batches))
    return "varied"


@pytest.mark.parametrize("headers", ["true", "false"])
def test_schema_and_rows_are_the_connectors(
    spark: "SparkSession", broker: BarnabasProcess, varied_topic: str, headers: str
) -> None:
    """A program changes the format and nothing else."""
    theirs, ours = (
        read(spark, way, broker.bootstrap, varied_topic, includeHeaders=headers)
        for way in ("kafka", "barnabas")
    )
    assert ours.schema == theirs.schema
    found = rows(ours)
    assert len(found) == 500
    assert found == rows(theirs)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": {"0": 5, "1": -2, "2": 40, "3": 0}},
        {"endingOffsets": {"0": 5, "1": -1, "2": 0, "3": 33}},
        {"startingTimestamp": FIRST_MS + 90_000},
        {"endingTimestamp": FIRST_MS + 30_000},
        {
            "startingOffsetsByTimestamp": dict.fromkeys("0123", FIRST_MS + 50_000),
            "endingOffsetsByTimestamp": dict.fromkeys("0123", FIRST_MS + 10**9),
        },
        {"startingTimestamp": FIRST_MS + 10**9, "startingOffsetsByTimestampStrategy": "latest"},
        {"minPartitions": 17},
        {"maxRecordsPerPartition": 30},
        {"arrowBatchRecords": 7},
        {"kafka.isolation.level": "read_committed"},
    ],
    ids=lambda options: "+".join(options),
)
def test_every_way_to_choose_gives_the_same_rows(
    spark: "SparkSession",
    broker: BarnabasProcess,
    varied_topic: str,
    options: dict[str, object],
) -> None:
    """Positions mean what they mean to the connector."""
    texts = {
        name: json.dumps({varied_topic: value}) if isinstance(value, dict) else str(value)
        for name, value in options.items()
    }
    ours = read(spark, "barnabas", broker.bootstrap, varied_topic, **texts)
    texts.pop("arrowBatchRecords", None)
    theirs = read(spark, "kafka", broker.bootstrap, varied_topic, **texts)
    assert rows(ours) == rows(theirs)


def test_topics_are_found_by_pattern_and_partitions_by_assignment(
    spark: "SparkSession", broker: BarnabasProcess, new_topic: NewTopic, produce: Produce
) -> None:
    """The other ways to say what to read; a pattern is looked for anywhere in a name."""
    for name, count in (("likes-a", 3), ("likes-b", 4), ("dislikes-a", 5)):
        produce(new_topic(name=name, partitions=2), [RecordToSend(value=b"x", partition=1)] * count)
    for options in (
        {"subscribePattern": "likes-.*"},
        {"subscribePattern": "^likes-.*"},
        {"subscribe": "likes-a,dislikes-a"},
        {"assign": '{"likes-a": [0], "likes-b": [1]}'},
    ):
        theirs, ours = (
            rows(read(spark, way, broker.bootstrap, None, **options))
            for way in ("kafka", "barnabas")
        )
        assert ours
        assert ours == theirs


def test_tasks_are_cut_as_asked(
    spark: "SparkSession", broker: BarnabasProcess, varied_topic: str
) -> None:
    """At least minPartitions, none above maxRecordsPerPartition, by default one each."""

    def count(**options: object) -> int:
        return read(
            spark, "barnabas", broker.bootstrap, varied_topic, **options
        ).rdd.getNumPartitions()

    assert count() == 4
    assert count(minPartitions=9) == 9
    assert count(maxRecordsPerPartition=25) >= 20


@pytest.fixture
def quick_cleaner(tmp_path: Path) -> Iterator[BarnabasProcess]:
    """A broker that compacts at once."""
    properties = {"log.cleaner.backoff.ms": "50", "auto.create.topics.enable": "false"}
    with BarnabasProcess(tmp_path / "broker", properties=properties) as running:
        yield running


def test_holes_of_compaction_are_read_over(
    spark: "SparkSession", quick_cleaner: BarnabasProcess
) -> None:
    """Offsets are missing inside, and whole batches; the read ends all the same."""
    bootstrap = quick_cleaner.bootstrap
    configs: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.0",
    }
    records.create_topic(bootstrap, "compacted", 1, configs)

    content = random.Random(1).randbytes
    batches = [
        (codec, [RecordToSend(key=b"%d" % (n % 7), value=content(1500)) for n in range(400)])
        for codec in ("none", "zstd", "none", "lz4", "none", "none")
    ]
    asyncio.run(produce_batches(bootstrap, "compacted", batches))
    (end,) = records.end_offsets(bootstrap, "compacted").values()

    def is_compacted() -> bool:
        return len(records.consume(bootstrap, "compacted")) < end // 2

    wait_until(is_compacted, 60, lambda: "nothing was compacted")
    theirs, ours = (read(spark, way, bootstrap, "compacted") for way in ("kafka", "barnabas"))
    found = places(ours)
    assert len(found) < end // 2
    assert found == places(theirs)
    third = json.dumps({"compacted": {"0": end // 3}})
    for option in ("startingOffsets", "endingOffsets"):
        theirs, ours = (
            read(spark, way, bootstrap, "compacted", **{option: third})
            for way in ("kafka", "barnabas")
        )
        assert rows(ours) == rows(theirs)

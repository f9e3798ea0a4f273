"""archive has every record exactly once, whatever of driver and brokers is killed when.

One round by default; `BARNABAS_ROUNDS=20` is what the project's figures come from.
"""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.pipelines.spark.kill_rounds import (
    ROUNDS,
    SEED,
    Rounds,
    at_once,
    new_files,
    new_lines,
    ways,
)
from tests.pipelines.spark.numbered_records import (
    TOPIC,
    NumberedProducer,
    check_topic,
    make_topics,
    read_topic,
)
from tests.support.barnabas_cluster import BarnabasCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600 + 300 * ROUNDS)]


def archived(path: Path) -> list[tuple[Any, ...]]:
    """What a reader without Spark finds at this moment, by partition and offset."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    columns = ["partition", "offset", "key", "value", "headers", "timestamp", "topic"]
    table = DeltaTable(str(path)).to_pyarrow_table(columns=columns)
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize("via", ways("python"))
def test_every_record_is_archived_once_when_drivers_and_brokers_are_killed(
    spark: "SparkSession", tmp_path: Path, via: str
) -> None:
    """A commit is all there is to it: before it nothing is there, behind it everything is."""
    path = tmp_path / "archive"
    arguments = [
        *("--topics", TOPIC, "--path", str(path), "--via", via),
        *("--master", "local[2]", "--max-offsets-per-trigger", "2000"),
    ]
    moments = [
        at_once(15),
        new_files("data files", path / f"topic={TOPIC}" / "dt=2026-09-21", 1.5, "part-"),
        new_files("commits", path / "_delta_log", 0.5),
        new_lines(2),
    ]
    sizes: list[int] = []

    def look() -> None:
        places = [row[:2] for row in archived(path)]
        assert len(places) == len(set(places)), f"seed {SEED}: records are there twice"
        sizes.append(len(places))
        assert sizes == sorted(sizes), f"seed {SEED}: records went away: {sizes}"

    with BarnabasCluster(tmp_path / "brokers") as cluster:
        asyncio.run(make_topics(cluster))
        brokers = ["--bootstrap-servers", cluster.bootstrap]
        producer = NumberedProducer(cluster.bootstrap)
        producer.start()
        rounds = Rounds(cluster, "archive", [*arguments, *brokers], moments, tmp_path)
        rounds.run(look)
        producer.stop()
        rounds.finish(["--verify"])
        records = read_topic(cluster.bootstrap, TOPIC)
    check_topic(records, producer.acknowledged, producer.unknown)
    expected = [
        (
            record.partition,
            record.offset,
            record.key,
            record.value,
            [{"key": key, "value": value} for key, value in record.headers],
            record.timestamp_ms,
            TOPIC,
        )
        for record in records
    ]
    found = [(*row[:5], round(row[5].timestamp() * 1000), row[6]) for row in archived(path)]
    assert len(found) == len(expected), f"seed {SEED}"
    assert found == expected, f"seed {SEED}"
    total = sum(json.loads(row[3])["n"] for row in found)
    story = rounds.story
    story.say(
        f"archive via {via}: seed {SEED}, {ROUNDS} rounds, {story.driver_kills} drivers and "
        f"{story.broker_kills} brokers killed, {len(story.own_ends)} drivers ended by themselves; "
        f"{len(producer.acknowledged)} acknowledged, {len(producer.unknown)} unknown, "
        f"{len(found)} archived, each once, sum {total}"
    )
    assert story.driver_kills == ROUNDS, story.own_ends

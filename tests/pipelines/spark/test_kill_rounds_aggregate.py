"""The compacted view of aggregate counts every record once, whatever is killed when.

Spark's sink writes again what a dead driver had written, so rows come twice and earlier states of a
window remain; the newest row per key is what counts. One round by default; `BARNABAS_ROUNDS=20` is
what the project's figures come from.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipelines.spark.kill_rounds import (
    ROUNDS,
    SEED,
    Rounds,
    at_once,
    new_files,
    new_lines,
    ways,
)
from tests.pipelines.spark.killed_aggregates import compacted, produced
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

TARGET = "totals"


@pytest.mark.parametrize("via", ways("connector"))
def test_counts_and_sums_are_right_when_drivers_and_brokers_are_killed(
    spark: "SparkSession", tmp_path: Path, via: str
) -> None:
    """State, checkpoint and sink must agree after every kill, or a window counts twice or less."""
    checkpoint = tmp_path / "checkpoint"
    query = checkpoint / "aggregate"
    arguments = [
        *("--topic", TOPIC, "--target", TARGET, "--create-target"),
        *("--checkpoint", str(checkpoint), "--via", via, "--master", "local[2]"),
        *("--group-by", "group", "--measures", "count, sum(n)", "--state-partitions", "2"),
        # No record may be late, however long a broker is away.
        *("--window", "10s", "--watermark", "2h", "--max-offsets-per-trigger", "2000"),
    ]
    moments = [
        at_once(15),
        new_files("offsets", query / "offsets", 1.5),
        new_files("commits", query / "commits", 0.3),
        new_files("state", query / "state" / "0" / "0", 0.3),
        new_lines(1.5),
    ]
    with BarnabasCluster(tmp_path / "brokers") as cluster:
        asyncio.run(make_topics(cluster))
        producer = NumberedProducer(cluster.bootstrap)
        producer.start()
        brokers = ["--bootstrap-servers", cluster.bootstrap]
        rounds = Rounds(cluster, "aggregate", [*arguments, *brokers], moments, tmp_path)
        rounds.run(lambda: None)
        producer.stop()
        rounds.finish([])
        records = read_topic(cluster.bootstrap, TOPIC)
        rows = read_topic(cluster.bootstrap, TARGET)
    check_topic(records, producer.acknowledged, producer.unknown)
    expected, found = produced(records), compacted(rows)
    assert found.keys() == expected.keys(), f"seed {SEED}"
    wrong = {key: (found[key], expected[key]) for key in found if found[key] != expected[key]}
    assert not wrong, f"seed {SEED}"
    story = rounds.story
    story.say(
        f"aggregate via {via}: seed {SEED}, {ROUNDS} rounds, {story.driver_kills} drivers and "
        f"{story.broker_kills} brokers killed, {len(story.own_ends)} drivers ended by themselves; "
        f"{len(producer.acknowledged)} acknowledged, {len(producer.unknown)} unknown, "
        f"{len(rows)} rows for {len(found)} windows and groups; counts {len(records)} and sums "
        f"{sum(total for _, total in found.values()):.0f} are equal"
    )
    assert story.driver_kills == ROUNDS, story.own_ends

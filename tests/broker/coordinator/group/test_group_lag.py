"""Lag of groups on real brokers: who tells it, in records and in seconds, and what is not known."""

import asyncio
import urllib.request
from collections import defaultdict
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from barnabas_client import Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition
from tests.support.barnabas_cluster import BarnabasCluster, pause, resume
from tests.support.barnabas_process import BarnabasProcess
from tests.support.in_process_broker import eventually

NOW_MS = 1_700_000_000_000
LAG = ("barnabas_group_lag_records", "barnabas_group_lag_seconds")
Told = dict[tuple[str, str, str, str], list[float]]


def scraped(broker: BarnabasProcess) -> Told:
    """What one broker tells of groups: by metric, group, topic and partition."""
    url = f"http://127.0.0.1:{broker.admin_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    told: Told = defaultdict(list)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("barnabas_group_") and "topic" in sample.labels:
                labels = sample.labels
                key = (sample.name, labels["group"], labels["topic"], labels["partition"])
                told[key].append(sample.value)
    return told


async def told_by_all(cluster: BarnabasCluster, *away: int) -> Told:
    """What all brokers but those that are away tell, each value with its repetitions."""
    brokers = [broker for node_id, broker in cluster.brokers.items() if node_id not in away]
    told: Told = defaultdict(list)
    for some in await asyncio.gather(*(asyncio.to_thread(scraped, one) for one in brokers)):
        for key, values in some.items():
            told[key] += values
    return told


async def produced(cluster: BarnabasCluster, places: list[TopicPartition], count: int) -> None:
    """Records in each partition, a second apart by their timestamps."""
    async with Producer(cluster.bootstrap, linger_ms=50) as producer:
        for place in places:
            for number in range(count):
                producer.send(
                    place.topic,
                    b"record",
                    partition=place.partition,
                    timestamp_ms=NOW_MS + 1000 * number,
                )
        await producer.flush()


def test_each_partition_of_a_group_is_told_once_and_rightly_by_a_cluster(tmp_path: Path) -> None:
    """MET-6: sums over brokers must be right, whoever leads the partition or holds a replica."""

    async def run(cluster: BarnabasCluster) -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            await cluster.create_topics(
                admin,
                # With one replica each: most coordinators hold nothing of what they tell about.
                NewTopic(name="single", partition_count=6, replication_factor=1),
                NewTopic(name="triple", partition_count=6, replication_factor=3),
            )
            places = [TopicPartition(topic, n) for topic in ("single", "triple") for n in range(6)]
            await produced(cluster, places, 10)
            trimmed = {TopicPartition("triple", 0): 4}
            (await admin.partitions.delete_records(trimmed)).unwrap()
            groups = [f"group-{number}" for number in range(6)]
            for number, group in enumerate(groups):
                committed = dict.fromkeys(places, OffsetAndMetadata(number))
                (await admin.group_offsets.alter(group, committed)).unwrap()
            ends = {
                TopicPartition("single", 5): OffsetAndMetadata(10),
                TopicPartition("triple", 5): OffsetAndMetadata(10),
            }
            (await admin.group_offsets.alter("group-0", ends)).unwrap()
            described = (await admin.groups.describe(groups)).unwrap()
            assert len({group.coordinator_id for group in described.values()}) > 1

            wanted: dict[tuple[str, str, str], int] = {}
            for number, group in enumerate(groups):
                for place in places:
                    start = trimmed.get(place, 0)
                    key = (group, place.topic, str(place.partition))
                    wanted[key] = 10 - max(number, start)
            for place in ends:
                wanted["group-0", place.topic, str(place.partition)] = 0

            async def is_told() -> bool:
                told = await told_by_all(cluster)
                records = {key[1:]: values for key, values in told.items() if key[0] == LAG[0]}
                return records == {key: [lag] for key, lag in wanted.items()}

            # A follower may become leader a moment later; a new leader does not know the end yet.
            await eventually(is_told)
            told = await told_by_all(cluster)
            oldest = {key[1:]: values for key, values in told.items() if key[0] == LAG[1]}
            assert oldest.keys() == wanted.keys()
            assert {len(values) for values in oldest.values()} == {1}
            assert {seconds for key, (seconds,) in oldest.items() if not wanted[key]} == {0}
            # The record at offset n is n seconds younger than the first.
            since_first = [
                seconds + 10 - wanted[key] for key, (seconds,) in oldest.items() if wanted[key]
            ]
            assert max(since_first) - min(since_first) < 0.9

    with BarnabasCluster(tmp_path) as cluster:
        asyncio.run(run(cluster))


def test_lag_behind_a_leader_that_does_not_answer_is_absent(tmp_path: Path) -> None:
    """What is not known is not told: neither the value of before nor 0."""

    async def run(cluster: BarnabasCluster) -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            await cluster.create_topics(
                admin, NewTopic(name="single", partition_count=3, replication_factor=1)
            )
            places = [TopicPartition("single", number) for number in range(3)]
            await produced(cluster, places, 3)
            committed = dict.fromkeys(places, OffsetAndMetadata(1))
            (await admin.group_offsets.alter("readers", committed)).unwrap()
            described = (await admin.groups.describe(["readers"])).unwrap()
            coordinator = described["readers"].coordinator_id
            topic = (await admin.topics.describe(["single"])).unwrap()["single"]
            leaders = {n: partition.leader_id for n, partition in topic.partitions.items()}
            away = next(leader for leader in leaders.values() if leader != coordinator)
            assert away is not None
            lost = {str(n) for n, leader in leaders.items() if leader == away}

            def told_records(told: Told) -> set[str]:
                return {key[3] for key in told if key[0] == LAG[0]}

            async def is_told() -> bool:
                return told_records(await told_by_all(cluster)) == {"0", "1", "2"}

            await eventually(is_told)
            pause(cluster.brokers[away])
            try:

                async def is_absent() -> bool:
                    told = await told_by_all(cluster, away)
                    return told_records(told) == {"0", "1", "2"} - lost

                await eventually(is_absent)
            finally:
                resume(cluster.brokers[away])
            await eventually(is_told)

    with BarnabasCluster(tmp_path) as cluster:
        asyncio.run(run(cluster))

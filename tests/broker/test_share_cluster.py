"""A queue on three brokers as processes, whose share coordinators are killed while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import FeatureUpdate
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ResourceType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import BarnabasError
from barnabas_client.producer import Producer
from barnabas_client.share import ShareConsumer
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import until

GROUP, TOPIC, STATE_TOPIC = "queue", "work", "__share_group_state"
PARTITION_COUNT = 4
RECORD_COUNT = 400
PROPERTIES = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2500",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "10",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasCluster]:
    with BarnabasCluster(tmp_path_factory.mktemp("queue"), properties=PROPERTIES) as cluster:
        yield cluster


async def prepare(cluster: BarnabasCluster, admin: Admin) -> None:
    """Share groups are on, and the group begins with the topic's first record."""
    await cluster.until_formed(admin)
    (await admin.features.update({"share.version": FeatureUpdate(level=2)})).unwrap()
    topic = NewTopic(name=TOPIC, partition_count=PARTITION_COUNT, replication_factor=3)
    await cluster.create_topics(admin, topic)
    resource = ConfigResource(ResourceType.GROUP, GROUP)
    change = ConfigChange.set("share.auto.offset.reset", "earliest")
    (await admin.configs.alter({resource: [change]})).unwrap()


async def consume(cluster: BarnabasCluster, seen: set[bytes], is_over: asyncio.Event) -> None:
    """Take records until all have been seen; the next poll accepts them."""
    async with ShareConsumer(cluster.bootstrap, group_id=GROUP) as consumer:
        consumer.subscribe([TOPIC])
        while not is_over.is_set():
            try:
                records = await consumer.poll(timeout_ms=500)
            except BarnabasError:
                await asyncio.sleep(0.2)
                continue
            seen.update(record.value for record in records if record.value is not None)


async def coordinator(admin: Admin, number: int) -> int:
    """The broker that leads a partition of the state topic."""
    described = (await admin.topics.describe([STATE_TOPIC])).unwrap()[STATE_TOPIC]
    leader = described.partitions[number].leader_id
    assert leader is not None
    return leader


def test_a_queue_goes_on_while_its_coordinators_are_killed(cluster: BarnabasCluster) -> None:
    """SHR-26, SHR-27, SHR-33: each record is processed, and in the end all of them are done."""

    async def run() -> None:
        async with Admin(cluster.bootstrap, request_timeout_ms=2_000) as admin:
            await prepare(cluster, admin)
            seen: set[bytes] = set()
            is_over = asyncio.Event()
            values = [b"%04d" % number for number in range(RECORD_COUNT)]

            async def produce(some: list[bytes]) -> None:
                async with Producer(cluster.bootstrap) as producer:
                    await asyncio.gather(*(producer.send(TOPIC, value) for value in some))

            async def has_seen(count: int) -> bool:
                return len(seen) >= count

            async with asyncio.timeout(110), asyncio.TaskGroup() as tasks:
                for _ in range(2):
                    tasks.create_task(consume(cluster, seen, is_over))
                quarter = RECORD_COUNT // 4
                await produce(values[:quarter])
                await until(lambda: has_seen(quarter))
                for number in range(2):
                    killed = cluster.brokers[await coordinator(admin, number)]
                    part = values[quarter * (number + 1) : quarter * (number + 2)]
                    sending = asyncio.create_task(produce(part))
                    await asyncio.to_thread(killed.kill)
                    await sending
                    await until(lambda n=number: has_seen(quarter * (n + 2)))  # type: ignore[misc]
                    await asyncio.to_thread(killed.start)
                    await cluster.until_in_sync(admin, [TOPIC, STATE_TOPIC])
                await produce(values[quarter * 3 :])
                await until(lambda: has_seen(RECORD_COUNT))

                async def is_done() -> bool:
                    offsets = (await admin.share_groups.list_offsets([GROUP])).unwrap()[GROUP]
                    lags = [None if one is None else one.lag for one in offsets.values()]
                    return lags == [0] * PARTITION_COUNT

                await until(is_done)
                is_over.set()
            assert seen == set(values)

    asyncio.run(run())

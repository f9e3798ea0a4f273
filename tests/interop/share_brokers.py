"""Brokers that serve share groups, and what tests of share consumers need of them."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.cluster import FeatureUpdate
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ResourceType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.producer import Producer
from barnabas_client.share import ShareConsumer, ShareRecord
from tests.client.admin.raw_requests import create_topics
from tests.interop.started_brokers import LIKE_APACHE, AnyBroker, AnyCluster
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.in_process_broker import eventually
from tests.support.kafka_cluster import BROKER_IDS, KafkaCluster

#: Barnabas, and Apache Kafka: the first version with share groups in production, and one where they
#: are switched on.
SHARE_BROKERS = ("barnabas", "4.2.0", "4.1.1")
SESSIONS_MAX = 10
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Members hear of their assignment soon, and locks of some groups are short.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.size": str(SESSIONS_MAX),
    "group.share.max.share.sessions": str(SESSIONS_MAX),
}


def start_share_broker(kind: str, directory: Path) -> AnyBroker:
    """A running broker of that kind with share groups switched on."""
    broker: AnyBroker
    if kind == "barnabas":
        broker = BarnabasProcess(directory, properties=PROPERTIES)
    else:
        broker = ApacheKafka(directory, version=kind, properties=PROPERTIES, heap="512M")
    broker.start()
    asyncio.run(switch_on(broker.bootstrap))
    return broker


def share_cluster_of(kind: str, directory: Path) -> AnyCluster:
    """Three brokers of that kind, not started; of Barnabas one more, which stays the controller."""
    properties = {
        **PROPERTIES,
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
    }
    if kind == "barnabas":
        node_ids = (0, *BROKER_IDS)
        return BarnabasCluster(
            directory, properties={**LIKE_APACHE, **properties}, node_ids=node_ids
        )
    return KafkaCluster(directory, properties, version=kind)


async def switch_on(bootstrap: str) -> None:
    """Switch share groups on where they are off, and wait until the broker acts on it."""
    async with Admin(bootstrap) as admin:
        finalized = (await admin.features.describe()).finalized
        if "share.version" not in finalized or finalized["share.version"].maximum < 1:
            (await admin.features.update({"share.version": FeatureUpdate(level=1)})).unwrap()

        async def is_on() -> bool:
            return "share.version" in (await admin.features.describe()).finalized

        await eventually(is_on)


async def prepare(
    bootstrap: str, topic: str, group: str, *, partition_count: int = 1, **settings: str
) -> None:
    """Create a topic, and let the group begin with its first record."""
    async with Admin(bootstrap) as admin:
        await create_topics(admin, NewTopic(name=topic, partition_count=partition_count))
        await configure(admin, group, share_auto_offset_reset="earliest", **settings)


async def configure(admin: Admin, group: str, **settings: str) -> None:
    """Give a group settings, with underscores for dots, and wait until the broker acts on them.

    Apache Kafka answers before its broker has read what its controller wrote.
    """
    resource = ConfigResource(ResourceType.GROUP, group)
    wanted = {name.replace("_", "."): value for name, value in settings.items()}
    changes = [ConfigChange.set(name, value) for name, value in wanted.items()]
    (await admin.configs.alter({resource: changes})).unwrap()

    async def hold() -> bool:
        described = (await admin.configs.describe([resource])).unwrap()[resource]
        return all(described[name].value == value for name, value in wanted.items())

    await eventually(hold)


async def send(bootstrap: str, topic: str, values: Iterable[bytes], **options: Any) -> None:
    """Append records, one batch where that is possible."""
    async with Producer(bootstrap, linger_ms=50) as producer:
        await asyncio.gather(*(producer.send(topic, value, **options) for value in values))


async def take(consumer: ShareConsumer, count: int, **options: Any) -> list[ShareRecord]:
    """Poll until so many records have come."""
    records: list[ShareRecord] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.poll(timeout_ms=1000, **options)
    return records


def seen(records: Sequence[ShareRecord]) -> list[tuple[bytes, int]]:
    """Values and delivery counts, in order of the values."""
    return sorted((record.value, record.delivery_count) for record in records)

"""What the tests of the console's ten tasks find in the cluster, and how they look at the focus."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.console_process import WatchedCluster, run

LETTERS = 3
LAG = 5
STANDS_AT = 7


@dataclass(frozen=True)
class TaskNames:
    """A topic with records, one with dead letters of it, and groups that are behind in a third."""

    topic: str
    dead: str
    read: str
    """What these groups read, and nothing else writes."""
    group: str
    spark: str


def fill(cluster: WatchedCluster, names: TaskNames) -> None:
    """Create all of it."""

    async def create(admin: Admin) -> None:
        await cluster.brokers.create_topics(
            admin,
            NewTopic(name=names.topic, partition_count=3, replication_factor=3),
            NewTopic(name=names.dead, partition_count=1, replication_factor=3),
            NewTopic(name=names.read, partition_count=1, replication_factor=3),
        )

    async def produce() -> None:
        async with Producer(cluster.brokers.bootstrap) as producer:
            for number in range(200):
                value = b'{"amount":%d,"currency":"EUR"}' % number
                producer.send(names.topic, value, key=b"customer-%d" % (number % 7))
            for number in range(LETTERS):
                header = ("__connect.errors.topic", names.topic.encode())
                producer.send(names.dead, b"letter %d" % number, headers=[header])
            for number in range(STANDS_AT + LAG):
                producer.send(names.read, b"%d" % number)
            await producer.flush()

    async def fall_behind(admin: Admin) -> None:
        committed = {TopicPartition(names.read, 0): OffsetAndMetadata(STANDS_AT)}
        for group in (names.group, names.spark):
            (await admin.group_offsets.alter(group, committed)).unwrap()

    cluster.run(create)
    run(produce)
    cluster.run(fall_behind)


def committed(cluster: WatchedCluster, names: TaskNames) -> int:
    """Where the group stands."""

    async def read(admin: Admin) -> int:
        offsets = (await admin.group_offsets.list([names.group])).unwrap()[names.group]
        found = offsets[TopicPartition(names.read, 0)]
        assert found is not None
        return found.offset

    return int(cluster.run(read))

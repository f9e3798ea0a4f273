"""Three brokers with share groups and one partition on all of them, to be moved and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from barnabas_broker.metadata.image import RESOURCE_GROUP
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource, ResourceType
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    alter_partition_reassignments,
    describe_configs,
    elect_leaders,
    metadata,
)
from tests.broker.share_member import ShareMember, acquired_of
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import until
from tests.support.raw_client import RawClient

TOPIC = "t"


class World:
    """A cluster with one partition on all of its brokers."""

    def __init__(self, cluster: BarnabasCluster, admin: Admin, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self.admin = admin
        self.stack = stack
        self.topic_id = b""

    async def connect(self, node_id: int) -> RawClient:
        """A new connection to a broker."""
        client = await RawClient.connect(self.cluster.brokers[node_id].port)
        return await self.stack.enter_async_context(client)

    async def leader(
        self, is_it: Callable[[int], bool] = lambda _: True, topic: str = TOPIC
    ) -> int:
        """Who leads, once that is whom it should be."""
        found: list[int] = []

        async def has_moved() -> bool:
            described = (await self.admin.topics.describe([topic])).unwrap()[topic]
            leader_id = described.partitions[0].leader_id
            found[:] = [-1 if leader_id is None else leader_id]
            return found[0] >= 0 and is_it(found[0])

        await until(has_moved)
        return found[0]

    async def configure(self, group_id: str, name: str, value: str) -> None:
        """Set a config of a group, and wait until all brokers have it."""
        resource = ConfigResource(ResourceType.GROUP, group_id)
        (await self.admin.configs.alter({resource: [ConfigChange.set(name, value)]})).unwrap()
        request = describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(
                    resource_type=RESOURCE_GROUP,
                    resource_name=group_id,
                    configuration_keys=[name],
                )
            ]
        )
        for node_id in self.cluster.brokers:
            client = await self.connect(node_id)

            async def has_it(client: RawClient = client) -> bool:
                response = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
                return [one.value for one in response.results[0].configs] == [value]

            await until(has_it)

    async def member(self, name: str, node_id: int) -> ShareMember:
        """A member on a connection of its own to a broker."""
        return ShareMember(await self.connect(node_id), "g", name, self.topic_id)

    async def move_to(self, node_id: int) -> None:
        """Prefer a broker as leader, elect it, and wait until the former leader knows."""
        client = await self.connect(await self.leader())
        others = [other for other in self.cluster.brokers if other != node_id]
        await client.call(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        name=TOPIC,
                        partitions=[
                            alter_partition_reassignments.ReassignablePartition(
                                partition_index=0, replicas=[node_id, *others]
                            )
                        ],
                    )
                ]
            ),
        )

        async def is_elected() -> bool:
            await client.call(
                ApiKey.ELECT_LEADERS,
                2,
                elect_leaders.ElectLeadersRequest(
                    topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])]
                ),
            )
            return await self.leader() == node_id

        async def is_known() -> bool:
            response = await client.call(
                ApiKey.METADATA,
                9,
                metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)]),
            )
            return bool(response.topics[0].partitions[0].leader_id == node_id)

        await until(is_elected)
        await until(is_known)


def in_cluster(
    directory: Path, work: Callable[[World], Awaitable[None]], **more_properties: str
) -> None:
    """Run against three brokers with share groups."""

    async def run(cluster: BarnabasCluster) -> None:
        async with AsyncExitStack() as stack:
            admin = await stack.enter_async_context(Admin(bootstrap_servers=cluster.bootstrap))
            await cluster.until_formed(admin)
            await cluster.create_topics(admin, NewTopic(name=TOPIC, partition_count=1))
            world = World(cluster, admin, stack)
            described = (await admin.topics.describe([TOPIC])).unwrap()[TOPIC]
            world.topic_id = described.topic_id
            await work(world)

    properties = {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "15000",
        "share.coordinator.state.topic.num.partitions": "2",
        **{name.replace("_", "."): value for name, value in more_properties.items()},
    }
    with BarnabasCluster(directory, properties=properties) as cluster:
        asyncio.run(run(cluster))


async def acquired_at_last(member: ShareMember, **fields: Any) -> list[tuple[int, int, int]]:
    """What a member acquires, after whatever errors a new leader has at first."""
    found: list[tuple[int, int, int]] = []

    async def has_acquired() -> bool:
        response = await member.fetch(0, max_wait_ms=1_000, **fields)
        found[:] = acquired_of(response)
        return bool(found)

    await until(has_acquired)
    return found

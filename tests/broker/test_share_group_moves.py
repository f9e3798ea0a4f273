"""A share group in a cluster of three, by the raw protocol: its partition moves, a leader dies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import alter_partition_reassignments, elect_leaders
from tests.broker.share_member import (
    ShareMember,
    acquired_of,
    append,
    configure,
    coordinator_of,
    error_of,
)
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import until
from tests.support.raw_client import RawClient

ACCEPT, RELEASE = 1, 2
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

    async def leader(self, is_it: Callable[[int], bool] = lambda _: True) -> int:
        """Who leads, once that is whom it should be."""
        found: list[int] = []

        async def has_moved() -> bool:
            described = (await self.admin.topics.describe([TOPIC])).unwrap()[TOPIC]
            leader_id = described.partitions[0].leader_id
            found[:] = [-1 if leader_id is None else leader_id]
            return found[0] >= 0 and is_it(found[0])

        await until(has_moved)
        return found[0]

    async def member(self, name: str, node_id: int) -> ShareMember:
        """A member on a connection of its own to a broker."""
        return ShareMember(await self.connect(node_id), "g", name, self.topic_id)

    async def move_to(self, node_id: int) -> None:
        """Prefer a broker as leader, and elect it."""
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

        await until(is_elected)


def in_cluster(directory: Path, work: Callable[[World], Awaitable[None]]) -> None:
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


def test_a_share_group_goes_on_when_its_partition_moves_and_its_leader_dies(tmp_path: Path) -> None:
    """SHR-33, SHR-42: what was accepted stays so, what was locked is delivered again."""

    async def work(world: World) -> None:
        node_id = await world.leader()
        producer = await world.connect(node_id)
        client = await world.connect(await coordinator_of(await world.connect(0), "g"))
        heartbeats = ShareMember(client, "g", "m1", world.topic_id)
        assert await heartbeats.join(TOPIC) == [(world.topic_id, 0)]
        member = await world.member("m1", node_id)
        await configure(client, "g", "share.auto.offset.reset", "earliest")
        await append(producer, TOPIC, [b"v"] * 10)
        assert await acquired_at_last(member) == [(0, 9, 1)]
        assert error_of(await member.acknowledge((0, 3, [ACCEPT]), (4, 4, [RELEASE]))) == 0

        other_id = (node_id + 1) % 3
        await world.move_to(other_id)
        moved = await member.fetch()
        assert error_of(moved) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert moved.responses[0].partitions[0].current_leader.leader_id == other_id
        assert [one.node_id for one in moved.node_endpoints] == [other_id]
        lost = await member.acknowledge((5, 9, [ACCEPT]))
        assert error_of(lost) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        again = await world.member("m1", other_id)
        assert await acquired_at_last(again) == [(4, 4, 2), (5, 9, 1)]
        assert error_of(await again.acknowledge((4, 8, [ACCEPT]))) == ErrorCode.NONE

        world.cluster.brokers[other_id].kill()
        last_id = await world.leader(lambda found: found != other_id)
        last = await world.member("m2", last_id)
        assert await acquired_at_last(last) == [(9, 9, 1)]
        await append(await world.connect(last_id), TOPIC, [b"v"] * 2)
        assert await acquired_at_last(last) == [(10, 11, 1)]

    in_cluster(tmp_path, work)

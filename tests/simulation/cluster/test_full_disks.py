"""A disk that fills up stops producers, and nothing else, until there is room again (VOL-4)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas_broker.log.manager.disk_room import Room
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages import create_topics
from tests.simulation import requests
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, UNLIMITED_BYTES, Node
from tests.support.simulated_random import SimulatedRandom

TOPIC = TopicPartition("orders", 0)
FILLER = "/filler"


class FillingCluster:
    """Three nodes and a topic led by node 0, whose disks can be made smaller."""

    def __init__(self) -> None:
        settings = {"auto.leader.rebalance.enable": "false", "log.retention.ms": "-1"}
        self.cluster = Cluster(5, 3, settings)
        self.nodes = self.cluster.nodes
        self.client = ClusterClient(
            "c",
            self.cluster.network,
            self.cluster.addresses,
            SimulatedRandom(1),
            self.cluster.trace.note,
        )

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def tell() -> None:
            for node in self.nodes:
                node.start()
            await self.until(lambda: all(node.is_ready for node in self.nodes))
            await self.create(TOPIC.topic, [0, 1, 2])
            await self.until(lambda: all(TOPIC in n.server.replicas.partitions for n in self.nodes))
            await self.until(lambda: len(self.partition(0).image.isr) == 3)
            for _ in range(20):
                assert (await self.append(b"x" * 50_000)).error_code == 0
            await story()
            assert [node.problems for node in self.nodes] == [[], [], []]
            assert all(node.is_up for node in self.nodes)

        self.cluster.run(tell)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.05)

    async def create(self, name: str, replicas: list[int] | None = None, factor: int = -1) -> None:
        assignments = [
            create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        ]
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=-1 if replicas else 1,
            replication_factor=-1 if replicas else factor,
            assignments=assignments if replicas else [],
        )
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        address = (self.nodes[0].host, PORT)
        response = await self.client.call(address, ApiKey.CREATE_TOPICS, 7, request)
        assert response is not None

    def partition(self, node_id: int) -> Partition:
        server = self.nodes[node_id].server
        assert server is not None
        return server.replicas.partitions[TOPIC]

    def room(self, node: Node) -> Room:
        assert node.server is not None
        (directory,) = node.server.logs.directories
        return node.server.logs.disk_guard.room(directory)

    async def shrink(self, node: Node, free_percent: int, room: Room) -> None:
        """Leave that much of a node's disk free; the reserve is a tenth."""
        node.disk.capacity_bytes = node.disk.used_bytes * 100 // (100 - free_percent)
        node.disk.has_failed = False
        await self.until(lambda: self.room(node) is room)

    def fill(self, node: Node) -> None:
        """Another program takes all the room of a volume of 10 GiB; its ballast is 64 MiB."""
        node.disk.capacity_bytes = 10 << 30
        node.disk.open(FILLER, create=True).allocate(node.disk.free_bytes("/"))

    def empty(self, node: Node) -> None:
        """It gives the room back."""
        node.disk.remove(FILLER)

    def has_ballast(self, node: Node) -> bool:
        """Whether the node has room that it can give up."""
        return node.server is not None and node.server.logs.directories[0].ballast.is_held

    def leader(self) -> int:
        """The node that leads now."""
        return next(n for n in range(3) if self.nodes[n].server and self.partition(n).is_leader)

    async def append(self, value: bytes) -> requests.Appended:
        connection = await self.client.connect((self.nodes[self.leader()].host, PORT))
        return await requests.append(connection, requests.append_request(*TOPIC, [value]))

    async def read(self) -> int:
        """How many records a consumer gets."""
        connection = await self.client.connect((self.nodes[self.leader()].host, PORT))
        return len(await requests.read_all(connection, *TOPIC))


def test_producers_are_refused_and_consumers_notice_nothing() -> None:
    """VOL-4, VOL-5: error 56 that names broker and bytes; over by itself when there is room."""
    world = FillingCluster()

    async def story() -> None:
        leader = world.nodes[0]
        for node in world.nodes:  # else another would lead
            await world.shrink(node, 7, Room.FULL)
        connection = await world.client.connect((leader.host, PORT))
        requests.send_append(connection, requests.append_request(*TOPIC, [b"y"]))
        response = await connection.receive(ApiKey.PRODUCE, requests.PRODUCE_VERSION)
        (refused,) = response.responses[0].partition_responses
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "broker 0: /data has " in str(refused.error_message)
        assert "bytes free of" in str(refused.error_message)
        assert await world.read() == 20
        assert len(world.partition(0).image.isr) == 3
        for node in world.nodes:
            node.disk.capacity_bytes = UNLIMITED_BYTES
        await world.until(lambda: all(world.room(node) is Room.ENOUGH for node in world.nodes))
        assert (await world.append(b"y")).error_code == 0
        assert await world.read() == 21

    world.run(story)


def test_follower_without_room_leaves_the_isr_and_comes_back() -> None:
    """VOL-4: below half of the reserve; producers and consumers go on with the others."""
    world = FillingCluster()

    async def story() -> None:
        follower = world.nodes[2]
        await world.shrink(follower, 4, Room.CRITICAL)
        end_offset = world.partition(2).log.log_end_offset
        assert (await world.append(b"y")).error_code == 0  # when the ISR has shrunk
        await world.until(lambda: world.partition(0).image.isr == (0, 1))
        assert world.partition(2).log.log_end_offset == end_offset
        assert await world.read() == 21
        follower.disk.capacity_bytes = UNLIMITED_BYTES
        await world.until(lambda: len(world.partition(0).image.isr) == 3)
        assert world.partition(2).log.log_end_offset == end_offset + 1

    world.run(story)


def test_new_replicas_go_elsewhere_while_others_have_room() -> None:
    """VOL-4, KIP-1066: the controller hears it by heartbeat; where nobody else is, they come."""
    world = FillingCluster()

    async def story() -> None:
        await world.shrink(world.nodes[1], 15, Room.LOW)
        server = next(
            node.server
            for node in world.nodes
            if node.server is not None and node.server.control.controller.is_active
        )
        sessions = server.control.controller._sessions
        await world.until(lambda: sessions.cordoned_brokers(server.image) == {1})
        for number in range(6):
            await world.create(f"two-{number}", factor=2)
        await world.create("three", factor=3)
        topics = server.image.topics.by_name
        await world.until(lambda: "three" in server.image.topics.by_name)
        topics = server.image.topics.by_name
        assert all(set(topics[f"two-{n}"].partitions[0].replicas) == {0, 2} for n in range(6))
        assert topics["three"].partitions[0].replicas[-1] == 1
        assert (await world.append(b"y")).error_code == 0

    world.run(story)


def test_leadership_goes_where_there_is_room() -> None:
    """VOL-4: relieve first; the full broker goes on as a follower, and producers notice nothing."""
    world = FillingCluster()

    async def story() -> None:
        await world.shrink(world.nodes[0], 15, Room.LOW)
        await world.until(lambda: not world.partition(0).is_leader and world.leader() in (1, 2))
        assert (await world.append(b"y")).error_code == 0
        await world.until(lambda: world.partition(0).log.log_end_offset == 21)
        assert len(world.partition(world.leader()).image.isr) == 3

    world.run(story)


@pytest.mark.parametrize("free_percent", [1])
def test_groups_and_metadata_go_on_at_the_worst_state(free_percent: int) -> None:
    """VOL-4: internal topics and the metadata log are what the reserve is for."""
    world = FillingCluster()

    async def story() -> None:
        for node in world.nodes:
            await world.shrink(node, free_percent, Room.CRITICAL)
        assert (await world.append(b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await world.create("another", [0, 1, 2])
        await world.until(
            lambda: all(
                node.server is not None and "another" in node.server.image.topics.by_name
                for node in world.nodes
            )
        )
        assert await world.read() == 20

    world.run(story)


def test_a_write_that_finds_no_room_loses_nothing_and_kills_nobody() -> None:
    """VOL-4: a part of the batch is in the file; it is cut off, and the log is opened again."""
    world = FillingCluster()

    async def story() -> None:
        leader = world.nodes[0]
        old = world.partition(0).log
        # Between two looks of the guard, as when another program takes the room.
        leader.disk.capacity_bytes = leader.disk.used_bytes + 10_000
        refused = await world.append(b"z" * 50_000)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert world.room(leader) is Room.CRITICAL
        leader.disk.has_failed = False
        leader.disk.capacity_bytes = UNLIMITED_BYTES
        await world.until(
            lambda: world.partition(0).log is not old and world.room(leader) is Room.ENOUGH
        )
        await world.until(lambda: len(world.partition(world.leader()).image.isr) == 3)
        assert await world.read() == 20
        appended = await world.append(b"y")
        assert (appended.error_code, appended.base_offset) == (0, 20)
        await world.until(
            lambda: all(world.partition(n).log.log_end_offset == 21 for n in range(3))
        )
        assert await world.read() == 21

    world.run(story)


def test_a_follower_s_write_that_finds_no_room_is_made_again_later() -> None:
    """VOL-4: the ISR shrinks, and it comes back by itself."""
    world = FillingCluster()

    async def story() -> None:
        follower = world.nodes[1]
        old = world.partition(1).log
        follower.disk.capacity_bytes = follower.disk.used_bytes + 10_000
        assert (await world.append(b"z" * 50_000)).error_code == 0
        await world.until(lambda: 1 not in world.partition(0).image.isr)
        assert world.room(follower) is Room.CRITICAL
        follower.disk.capacity_bytes = UNLIMITED_BYTES
        await world.until(lambda: len(world.partition(0).image.isr) == 3)
        assert world.partition(1).log is not old
        assert world.partition(1).log.log_end_offset == 21

    world.run(story)


def test_without_any_room_metadata_and_groups_go_on_by_the_ballast() -> None:
    """VOL-4: true ENOSPC on every broker at once; the ballast is there again when there is room."""
    world = FillingCluster()

    async def story() -> None:
        await world.until(lambda: all(map(world.has_ballast, world.nodes)))
        for node in world.nodes:
            world.fill(node)
        await world.create("another", [0, 1, 2])
        await world.until(lambda: not any(map(world.has_ballast, world.nodes)))
        await world.until(lambda: all(world.room(n) is Room.CRITICAL for n in world.nodes))
        assert (await world.append(b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await world.read() == 20
        for number in range(20):
            await world.create(f"later-{number}", [0, 1, 2])
        await world.until(
            lambda: all(
                node.server is not None and "later-19" in node.server.image.topics.by_name
                for node in world.nodes
            )
        )
        assert all(node.is_up for node in world.nodes)
        for node in world.nodes:
            world.empty(node)
        await world.until(lambda: all(map(world.has_ballast, world.nodes)))
        await world.until(lambda: all(world.room(n) is Room.ENOUGH for n in world.nodes))
        assert (await world.append(b"y")).error_code == 0
        # The logs that found no room when their topics were made.
        later = TopicPartition("later-19", 0)
        await world.until(lambda: all(later in n.server.replicas.partitions for n in world.nodes))

    world.run(story)


def test_a_new_partition_without_room_gets_its_log_later() -> None:
    """VOL-4: by itself, without a change of the metadata."""
    world = FillingCluster()
    late = TopicPartition("late", 0)

    async def story() -> None:
        node = world.nodes[2]
        await world.until(lambda: world.has_ballast(node))
        world.fill(node)
        await world.until(lambda: world.room(node) is Room.CRITICAL)
        await world.create("late", [2, 0, 1])
        assert node.server is not None
        waiting = node.server.replicas.without_log
        await world.until(lambda: late in waiting or late in node.server.replicas.partitions)
        assert late in node.server.replicas.without_log
        offset = node.server.image.offset
        world.empty(node)
        await world.until(lambda: late in node.server.replicas.partitions)
        assert world.nodes[2].server is node.server
        assert offset  # it was there before
        await world.until(
            lambda: len(node.server.image.topics.by_name["late"].partitions[0].isr) == 3
        )

    world.run(story)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_starts_with_no_room_at_all(is_clean: bool) -> None:
    """VOL-4: it serves what it has, takes no writes, and goes on when there is room."""
    world = FillingCluster()

    async def story() -> None:
        node = world.nodes[2]
        await world.until(lambda: world.has_ballast(node))
        if is_clean:
            node.stop()
            await node.ended()
        else:
            node.kill()
            await node.ended()
        world.fill(node)
        node.start()
        await world.until(lambda: node.is_ready)
        assert world.room(node) is Room.CRITICAL
        assert world.partition(2).log.log_end_offset == 20
        assert (await world.append(b"y")).error_code == 0
        await world.until(lambda: 2 not in world.partition(world.leader()).image.isr)
        world.empty(node)
        await world.until(lambda: len(world.partition(world.leader()).image.isr) == 3)
        assert world.partition(2).log.log_end_offset == 21

    world.run(story)


def test_a_broker_that_stops_with_a_full_disk_recovers_what_it_had() -> None:
    """REC-4: a log that found no room was not closed, so the directory was not left clean."""
    world = FillingCluster()

    async def story() -> None:
        leader = world.nodes[0]
        leader.disk.capacity_bytes = leader.disk.used_bytes + 10_000
        refused = await world.append(b"z" * 50_000)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        leader.stop()
        await leader.ended()
        leader.disk.capacity_bytes = UNLIMITED_BYTES
        leader.start()
        world.client.drop()
        await world.until(lambda: leader.is_ready and len(world.partition(0).image.isr) == 3)
        assert world.partition(0).log.log_end_offset == 20
        assert await world.read() == 20

    world.run(story)

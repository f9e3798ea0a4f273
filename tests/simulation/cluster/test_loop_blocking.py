"""Nothing waits for a device on an event loop; `no_fsync_on_the_loop` fails a test that does."""

import asyncio
from collections.abc import Callable

from barnabas_broker.log.leader_epochs import LeaderEpochs
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import create_topics, elect_leaders
from tests.simulation import requests
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, Node
from tests.support.loop_guard import LoopGuard
from tests.support.raw_client import RawClient
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

PARTITIONS = 300
TOPIC = "orders"
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_the_guard_sees_a_wait_on_the_loop_and_none_in_a_thread(loop_guard: LoopGuard) -> None:
    """What the tests below rely on."""
    disk = SimulatedDisk()
    disk.make_directories("/data")

    async def run(*, in_thread: bool) -> None:
        epochs = LeaderEpochs(disk, "/data/leader-epoch-checkpoint")
        epochs.assign(1, 0)
        await disk.run(epochs.flush) if in_thread else epochs.flush()

    asyncio.run(run(in_thread=True))
    assert loop_guard.take() == []
    asyncio.run(run(in_thread=False))
    assert ["write_atomically on the event loop" in call for call in loop_guard.take()] == [True]


class Story:
    """Three nodes with a topic of many partitions, each with a record."""

    def __init__(self, **settings: str) -> None:
        self.cluster = Cluster(
            11, 3, {"auto.leader.rebalance.enable": "false", "log.retention.ms": "-1", **settings}
        )
        self.nodes = self.cluster.nodes
        self.client = ClusterClient(
            "c",
            self.cluster.network,
            self.cluster.addresses,
            SimulatedRandom(1),
            self.cluster.trace.note,
        )
        self.client.answer_seconds = 30

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():
                await asyncio.sleep(0.05)

    def partitions(self) -> list[tuple[int, int]]:
        """Leader and size of the ISR of each, by the newest image."""
        image = max(
            (node.server.image for node in self.nodes if node.server), key=lambda one: one.offset
        )
        found = image.topics.by_name[TOPIC].partitions
        return [(partition.leader, len(partition.isr)) for partition in found]

    async def begin(self) -> None:
        for node in self.nodes:
            node.start()
        await self.until(lambda: all(node.is_ready for node in self.nodes))
        topic = create_topics.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                create_topics.CreatableReplicaAssignment(partition_index=i, broker_ids=[0, 1, 2])
                for i in range(PARTITIONS)
            ],
        )
        request = create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        await self.call(0, ApiKey.CREATE_TOPICS, 7, request)
        await self.until(lambda: all(isr == 3 for _, isr in self.partitions()))
        connection = await self.client.connect((self.nodes[0].host, PORT))
        for index in range(PARTITIONS):
            await self.append(connection, index)
        self.client.drop()

    async def append(self, connection: RawClient, index: int) -> None:
        """Append a record, as soon as the leader knows that it leads."""
        request = requests.append_request(TOPIC, index, [b"x"])
        async with asyncio.timeout(120):
            while (response := await requests.append(connection, request)).error_code in NOT_YET:
                await asyncio.sleep(0.05)
        assert response.error_code == 0

    async def call(self, node_id: int, key: ApiKey, version: int, request: object) -> None:
        await self.client.call((self.nodes[node_id].host, PORT), key, version, request)  # type: ignore[arg-type]

    async def roll(self, node: Node, end: Callable[[], None]) -> None:
        """End a leader, start it again, and give it all its leaderships back."""
        end()
        await self.until(
            lambda: not node.is_up and all(leader != 0 for leader, _ in self.partitions())
        )
        node.start()
        await self.until(lambda: node.is_ready and all(isr == 3 for _, isr in self.partitions()))
        request = elect_leaders.ElectLeadersRequest(
            election_type=0, topic_partitions=None, timeout_ms=30_000
        )
        await self.call(1, ApiKey.ELECT_LEADERS, 2, request)
        await self.until(lambda: all(leader == 0 for leader, _ in self.partitions()))
        self.client.drop()


def test_300_partitions_change_leader_without_an_fsync_on_the_loop(loop_guard: LoopGuard) -> None:
    """It was 600 of them: with a slow disk, a session timeout."""
    story = Story()

    async def tell() -> None:
        await story.begin()
        await story.roll(story.nodes[0], story.nodes[0].stop)
        await story.roll(story.nodes[0], story.nodes[0].kill)

    story.cluster.run(tell)
    assert loop_guard.take() == []

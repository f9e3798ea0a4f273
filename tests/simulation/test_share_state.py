"""Share coordinators that die while everybody writes: what was acknowledged is never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from barnabas_broker.coordinator.share.coordinator import SHARE_STATE_TOPIC
from barnabas_broker.coordinator.share.state_persister import LANES, StateApi, StatePersister
from barnabas_broker.share.persister import SharePartitionKey, StateBatch
from barnabas_protocol.api import ApiKey, newest_version
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.hashing import coordinator_partition
from tests.simulation import requests
from tests.simulation.cluster.client import LOST, ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, REPLICATION_PORT, Node
from tests.support.share_state import switch_on_share_groups
from tests.support.simulated_random import SimulatedRandom

TOPIC = "t"
KEY_COUNT = 6
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.write.timeout.ms": "1000",
    # Snapshots, cold ones and cuts are all met.
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.cold.partition.snapshot.interval.ms": "3000",
    "share.coordinator.state.topic.prune.interval.ms": "1500",
}


class WireCoordinators:
    """The coordinators as another broker reaches them, by the listener for brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lanes = [
            ClusterClient(
                f"lane-{lane}",
                cluster.network,
                cluster.addresses,
                SimulatedRandom(lane),
                cluster.trace.note,
            )
            for lane in range(LANES)
        ]

    def node_of(self, key: SharePartitionKey) -> int | None:
        images = [node.server.image for node in self._cluster.nodes if node.is_ready]
        newest = max(images, key=lambda image: image.offset, default=None)
        topic = None if newest is None else newest.topics.by_name.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[coordinator_partition(str(key), len(topic.partitions))].leader
        return None if leader < 0 else leader

    async def send(self, node_id: int, lane: int, api: StateApi, request: Any) -> Any:
        address = self._cluster.nodes[node_id].host, REPLICATION_PORT
        try:
            return await self._lanes[lane].call(
                address, api.api_key, newest_version(api.api_key), request
            )
        except LOST as error:
            raise OSError(str(error)) from error

    def drop(self) -> None:
        for lane in self._lanes:
            lane.drop()


class Story:
    """Some share partitions, one writer for each, and what the writers know to be written."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed, 3, PROPERTIES)
        self.random = SimulatedRandom(seed)
        self.coordinators = WireCoordinators(self.cluster)
        self.persister = StatePersister(self.coordinators)
        self.acknowledged: dict[SharePartitionKey, int] = {}
        self.is_over = False

    async def until(self, what: Callable[[], bool], seconds: float = 120) -> None:
        end = self.cluster.loop.time() + seconds
        while not what():
            assert self.cluster.loop.time() < end, "takes too long"
            await asyncio.sleep(0.05)

    async def begin(self) -> None:
        """All nodes are up, share groups are on, and each share partition is known."""
        nodes = self.cluster.nodes
        for node in nodes:
            node.start()
        await self.until(lambda: all(node.is_ready for node in nodes))
        client = ClusterClient(
            "c", self.cluster.network, self.cluster.addresses, self.random, lambda *_: None
        )
        raw = await client.connect((nodes[0].host, PORT))
        await switch_on_share_groups(raw)
        error_code, topic_id = await requests.create_topic(raw, TOPIC)
        assert error_code == 0
        await self.until(lambda: all(TOPIC in n.server.image.topics.by_name for n in nodes))
        client.drop()
        # Nobody has asked for the topic of the state yet.
        nodes[0].server.data.topic_creation.ensure(SHARE_STATE_TOPIC)
        for number in range(KEY_COUNT):
            key = SharePartitionKey(f"group-{number}", topic_id, 0)
            await self.repeated(partial(self.persister.initialize, key, 1, 0))
            self.acknowledged[key] = -1

    async def repeated(self, call: Callable[[], Any]) -> Any:
        """The outcome of a call that is made again as long as there is no coordinator."""
        while True:
            try:
                return await call()
            except KafkaError as error:
                assert error.code in (14, 15, 16), error

    async def keep_writing(self, key: SharePartitionKey) -> None:
        offset = 0
        while not self.is_over:
            batches = [StateBatch(offset, offset, 2, 1)]
            await self.repeated(partial(self.persister.write, key, 1, 0, 0, offset, batches))
            self.acknowledged[key] = offset
            offset += 1
            await asyncio.sleep(0.05)

    async def all_advance(self) -> None:
        """Everybody writes again."""
        before = dict(self.acknowledged)
        await self.until(
            lambda: all(offset > before[key] for key, offset in self.acknowledged.items())
        )

    async def end(self) -> None:
        """The next leader of each share partition finds what was acknowledged, and no holes."""
        self.is_over = True
        await asyncio.sleep(60)
        for key, last in self.acknowledged.items():
            state = await self.repeated(partial(self.persister.read, key, 1))
            assert state.batches == (StateBatch(0, last, 2, 1),)
            assert last > 0
        await self.persister.close()
        self.coordinators.drop()
        await asyncio.sleep(0.1)

    def coordinator(self) -> Node:
        """A node that coordinates some of the share partitions."""
        keys = list(self.acknowledged)
        node_id = self.coordinators.node_of(keys[self.random.integer(len(keys))])
        assert node_id is not None
        return self.cluster.nodes[node_id]

    def run(self, work: Callable[[], Any]) -> None:
        async def tell() -> None:
            await self.begin()
            writers = [
                asyncio.create_task(self.keep_writing(key)) for key in list(self.acknowledged)
            ]
            await self.all_advance()
            await work()
            await self.all_advance()
            await self.end()
            await asyncio.gather(*writers)

        self.cluster.run(tell)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_coordinator_that_dies_loses_no_acknowledged_write(seed: int) -> None:
    """SHR-26, SHR-27: among writes, right after an answer to one, and with the machine's power."""
    story = Story(seed)

    async def killed_among_writes(node: Node) -> None:
        await asyncio.sleep(story.random.integer(2_000) / 1_000)
        node.kill()

    async def killed_after_an_answer(node: Node) -> None:
        write = ApiKey.WRITE_SHARE_GROUP_STATE
        story.cluster.network.strike_after(node.host, write, node.kill)
        await story.until(lambda: not node.is_up)

    async def without_power(node: Node) -> None:
        await asyncio.sleep(story.random.integer(2_000) / 1_000)
        node.lose_power()

    async def work() -> None:
        for ways in (killed_among_writes, killed_after_an_answer, without_power):
            node = story.coordinator()
            await ways(node)
            await story.all_advance()
            node.start()
            await story.until(partial(getattr, node, "is_ready"))
            await asyncio.sleep(5)

    story.run(work)
    assert not story.cluster.problems


def test_a_coordinator_that_is_cut_off_acknowledges_nothing() -> None:
    """SHR-26, OFS-5: it has writes alone that the next coordinator does not know of."""
    story = Story(7)

    async def work() -> None:
        network, cut_off = story.cluster.network, story.coordinator()
        for other in story.cluster.nodes:
            if other is not cut_off:
                network.cut(cut_off.host, other.host)
        await asyncio.sleep(10)
        await story.all_advance()
        network.heal()
        await story.all_advance()
        await asyncio.sleep(5)

    story.run(work)
    assert not story.cluster.problems

"""Nodes of a metadata log on simulated disks, whose histories a test tells."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from barnabas_broker.arbiter.arbiter import ArbiterRecord
from barnabas_broker.metadata.quorum.history import new_history
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, Node
from tests.support.simulated_random import SimulatedRandom

SETTINGS = {
    "cluster.id": "c",
    "barnabas.flush.policy": "group-fsync",
    "metadata.member.lost.ms": "60000",
    "log.segment.delete.delay.ms": "1000",
}


class World:
    """Three brokers with one topic, all stopped."""

    def __init__(self, seed: int = 11, settings: dict[str, str] = SETTINGS) -> None:
        self.cluster = Cluster(seed, 3, settings)
        self.nodes = self.cluster.nodes
        self.store = self.cluster.store

    async def begin(self) -> None:
        self.start(*self.nodes)
        await self.until(lambda: all(node.is_ready for node in self.nodes))
        await self.until(lambda: len(self.store.stored.record.members) == 3)
        await self.create_topic("orders")

    async def create_topic(self, name: str, replicas: int = 3) -> None:
        cluster = self.cluster
        random = SimulatedRandom(1)
        client = ClusterClient("c", cluster.network, cluster.addresses, random, cluster.trace.note)
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)
        node = next(node for node in self.nodes if node.is_ready)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        response = await client.call((node.host, PORT), ApiKey.CREATE_TOPICS, 7, request)
        assert response.topics[0].error_code == 0, response
        await self.until(
            lambda: all(name in self.topics(node) for node in self.nodes if node.is_up)
        )
        client.drop()

    def start(self, *nodes: Node) -> None:
        for node in nodes:
            node.start()

    async def stop(self, *nodes: Node) -> None:
        for node in nodes:
            node.stop()
        await self.until(lambda: not any(node.is_up for node in nodes))

    async def until(self, what: Callable[[], bool], seconds: float = 60) -> None:
        end = self.cluster.loop.time() + seconds
        while not what():
            assert self.cluster.loop.time() < end, self.cluster.problems
            await asyncio.sleep(0.05)

    def topics(self, node: Node) -> set[str]:
        with suppress(AttributeError):
            return set(node.server.image.topics.by_name)
        return set()

    def folders(self, node: Node) -> set[str]:
        return {path.split("/")[2] for path in node.disk._names if "/orders-" in path}

    def recovered_by(self, node_id: int) -> ArbiterRecord:
        """The record that `barnabas cluster recover` makes."""
        record = self.store.stored.record
        (survivor,) = (member for member in record.members if member.node_id == node_id)
        new = new_history("c", survivor.directory_id, 1, record.histories[0])
        return record._replace(
            controller_epoch=record.controller_epoch + 1,
            leader=None,
            members=(survivor,),
            histories=(new, *record.histories),
            ends=(),
        )

    def said(self, text: str) -> bool:
        return any(text in problem for problem in self.cluster.problems)

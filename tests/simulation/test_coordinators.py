"""Group coordinators in a cluster: what is committed is answered, by whichever broker."""

import asyncio
from collections.abc import Callable

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tests.simulation import requests
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.node import PORT, Node
from tests.support.simulated_random import SimulatedRandom

GROUPS = [f"group-{number}" for number in range(12)]


async def until(cluster: Cluster, what: Callable[[], bool], seconds: float = 60) -> None:
    end = cluster.loop.time() + seconds
    while not what():
        assert cluster.loop.time() < end, "takes too long"
        await asyncio.sleep(0.05)


def client_of(cluster: Cluster) -> ClusterClient:
    client = ClusterClient(
        "c", cluster.network, cluster.addresses, SimulatedRandom(1), cluster.trace.note
    )
    client.answer_seconds = 20
    return client


async def coordinator(client: ClusterClient, node: Node, group: str) -> Coordinator:
    found = await client.call(
        (node.host, PORT),
        ApiKey.FIND_COORDINATOR,
        4,
        FindCoordinatorRequest(coordinator_keys=[group]),
    )
    (one,) = found.coordinators
    assert isinstance(one, Coordinator)
    return one


def test_an_offset_that_was_never_committed_is_not_answered() -> None:
    """OFS-2, OFS-5: the leader of the offsets topic is cut off and has the commit alone."""
    cluster = Cluster(11, 3, {"offsets.commit.timeout.ms": "1000"})
    seen: list[tuple[int, int]] = []

    async def tell() -> None:
        nodes = cluster.nodes
        for node in nodes:
            node.start()
        await until(cluster, lambda: all(node.is_ready for node in nodes))
        client = client_of(cluster)
        raw = await client.connect((nodes[0].host, PORT))
        assert (await requests.create_topic(raw, "t"))[0] == 0
        while await requests.find_group(raw, "g"):
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)
        image = nodes[0].server.image
        leader = nodes[image.topics.by_name["__consumer_offsets"].partitions[0].leader]
        others = [node for node in nodes if node is not leader]
        at = await client.connect((leader.host, PORT))
        while await requests.commit_offset(at, "g", "t", 0, 100):
            await asyncio.sleep(0.2)
        for other in others:
            cluster.network.cut(leader.host, other.host)
        assert await requests.commit_offset(at, "g", "t", 0, 200) != 0
        await asyncio.sleep(0.5)
        seen.append(await requests.committed_offset(at, "g", "t", 0))
        leader.kill()
        await asyncio.sleep(8)
        for other in others:
            raw = await client.connect((other.host, PORT))
            seen.append(await requests.committed_offset(raw, "g", "t", 0))
        client.drop()
        await asyncio.sleep(0.1)

    cluster.run(tell)
    assert (0, 200) not in seen
    assert (0, 100) in seen


def test_groups_are_mapped_by_the_partitions_that_the_topic_has() -> None:
    """OFS-1: one broker comes back with another `offsets.topic.num.partitions`."""
    cluster = Cluster(6, 3, {"offsets.topic.num.partitions": "5"})

    async def tell() -> None:
        nodes = cluster.nodes
        for node in nodes:
            node.start()
        await until(cluster, lambda: all(node.is_ready for node in nodes))
        client = client_of(cluster)
        raw = await client.connect((nodes[0].host, PORT))
        assert (await requests.create_topic(raw, "t"))[0] == 0
        while await requests.find_group(raw, GROUPS[0]):
            await asyncio.sleep(0.2)
        for group in GROUPS:
            led = nodes[(await coordinator(client, nodes[0], group)).node_id]
            at = await client.connect((led.host, PORT))
            while await requests.commit_offset(at, group, "t", 0, 7):
                await asyncio.sleep(0.2)
        changed = nodes[2]
        client.drop()
        changed.stop()
        await until(cluster, lambda: not changed.is_up)
        changed.properties["offsets.topic.num.partitions"] = "3"
        changed.start()
        await until(cluster, lambda: changed.is_ready)
        await asyncio.sleep(5)
        for group in GROUPS:
            told = [(await coordinator(client, node, group)).node_id for node in nodes]
            assert told == [told[0]] * 3
            at = await client.connect((nodes[told[0]].host, PORT))
            assert await requests.committed_offset(at, group, "t", 0) == (0, 7)
        client.drop()
        await asyncio.sleep(0.1)

    cluster.run(tell)

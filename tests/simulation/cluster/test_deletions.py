"""A key that was deleted while a replica was away stays deleted when that replica leads (REC-8)."""

import asyncio
from collections.abc import Callable

from barnabas_broker.metadata.image import PartitionImage
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, encode_batch
from tests.simulation import requests
from tests.simulation.cluster.administration import create_topic
from tests.simulation.cluster.client import ClusterClient
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.history import History
from tests.simulation.cluster.node import PORT, Node
from tests.support.simulated_random import SimulatedRandom

TABLE = TopicPartition("table", 0)
ROUNDS = 20


async def until(what: Callable[[], bool]) -> None:
    """Wait for something, in the loop's own time."""
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.05)


def test_a_replica_that_was_away_for_long_brings_back_nothing_that_was_deleted() -> None:
    """Seed 501465: the others had dropped the tombstone before it could fetch that."""
    cluster = Cluster(7, 3, {"log.cleaner.backoff.ms": "100", "min.insync.replicas": "2"})
    client = ClusterClient(
        "test", cluster.network, cluster.addresses, SimulatedRandom(1), cluster.trace.note
    )

    async def put(key: bytes, value: bytes | None) -> None:
        connection = await client.connect((cluster.nodes[partition().leader].host, PORT))
        batch = encode_batch([Record(0, cluster.nodes[0].clock.wall_ms(), key, value, ())])
        request = requests.produce_request(*TABLE, batch)
        while (await requests.append(connection, request)).error_code:
            await asyncio.sleep(0.05)  # the leader does not know yet that it leads

    def round_count(node: Node) -> int:
        return 0 if node.server is None else node.server.logs.cleaner.metrics.rounds_count

    def partition() -> PartitionImage:
        servers = [node.server for node in cluster.nodes if node.server is not None]
        newest = max((server.image for server in servers), key=lambda image: image.offset)
        return newest.topics.by_name[TABLE.topic].partitions[0]

    async def clean(nodes: list[Node]) -> None:
        """Write until each of these nodes has compacted several times more."""
        wanted = {node.node_id: round_count(node) + ROUNDS for node in nodes}
        while any(round_count(node) < wanted[node.node_id] for node in nodes):
            await put(b"other", b"value")
            await asyncio.sleep(0.1)

    async def keys(node: Node) -> set[bytes | None]:
        connection = await client.connect((node.host, PORT))
        return {record.key for record in await requests.read_all(connection, *TABLE)}

    async def tell() -> None:
        for node in cluster.nodes:
            node.start()
        await until(lambda: all(node.is_ready for node in cluster.nodes))
        await create_topic(
            client,
            History(),
            TABLE.topic,
            1,
            3,
            cleanup_policy="compact",
            segment_ms="100",
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="500",
        )
        await until(lambda: partition().leader >= 0 and len(partition().isr) == 3)
        await put(b"key", b"was deleted")
        leader = cluster.nodes[partition().leader]
        away, other = (node for node in cluster.nodes if node is not leader)
        await clean(cluster.nodes)
        assert _has(away, b"was deleted")
        away.kill()
        await until(lambda: away.node_id not in partition().isr)
        await put(b"key", None)
        await clean([leader, other])
        assert b"key" in await keys(leader)
        away.start()
        await until(lambda: len(partition().isr) == 3)
        await clean(cluster.nodes)
        assert b"key" not in await keys(leader)
        assert not any(_has(node, b"was deleted") for node in cluster.nodes)

    cluster.run(tell)


def _has(node: Node, value: bytes) -> bool:
    """Whether a value is in the files of a node's replica."""
    assert node.server is not None
    folder = node.server.logs.logs[TABLE].directory
    return any(
        value in content.data
        for path, content in node.disk._names.items()
        if path.startswith(folder + "/") and path.endswith(".log")
    )

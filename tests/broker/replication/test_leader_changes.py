"""Random walks through fast leader changes, late metadata, cut links and power cuts.

Three replicas, all in the ISR all the time, on disks that forget: under `group-fsync` whatever is
once below a leader's high watermark must stay at its offset for ever, whoever leads (REP-19). So
must what is acknowledged, also by a request that waits long for another partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.metadata.records import PartitionRecord
from barnabas_broker.replication.leader.delayed_produce import ProduceResult
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.replica_nodes import TOPIC, TP, Links, ReplicaNode, led_by, topic_records, until
from tests.support.simulated_random import SimulatedRandom
from tests.support.virtual_loop import run_virtual

NODES = (0, 1, 2)
STEPS = 120
Committed = dict[int, tuple[int, bytes | None]]


class Walk:
    """One walk: what was elected, what each node knows of it, and what was committed."""

    def __init__(self, seed: int, *, page_cache: bool) -> None:
        self.seed = seed
        self.random = SimulatedRandom(seed)
        overrides = {} if page_cache else {"barnabas.flush.policy": "group-fsync"}
        self.loses_power = not page_cache
        self.config = LogConfig.build({}, overrides)
        self.links = Links()
        self.nodes: dict[int, ReplicaNode] = {}
        self.history: list[PartitionRecord] = []
        self.known: dict[int, int] = {}
        self.committed: Committed = {}
        self.acknowledged: dict[int, bytes] = {}
        self.produced_count = 0

    async def begin(self) -> None:
        self.elect(0)
        # Each leads one that nobody copies for long.
        slow = [led_by(n, 0, index=1 + n, replicas=(n, 3), isr=(n, 3)) for n in NODES]
        for node_id in NODES:
            node = ReplicaNode(node_id, self.links, topic_config=self.config)
            node.disk.random = SimulatedRandom(self.seed * 10 + node_id)
            self.nodes[node_id] = await node.start()
            await node.learn([*topic_records(), self.history[0], *slow])
            self.known[node_id] = 0

    def elect(self, leader: int) -> None:
        epoch = len(self.history)
        self.history.append(led_by(leader, epoch, replicas=NODES, isr=NODES))

    async def learn(self, node_id: int, count: int = 100) -> None:
        """Let a node hear of the next elections, in one delta."""
        known = self.known[node_id]
        news = self.history[known + 1 : known + 1 + count]
        if news:
            self.known[node_id] = known + len(news)
            await self.nodes[node_id].learn(news)

    async def step(self) -> None:
        random, node_id = self.random, self.random.integer(3)
        match random.integer(10):
            case 0:
                self.produce(node_id)
            case 1 | 2:
                self.produce_to_two(node_id)
            case 3:
                self.elect(node_id)
                if random.integer(2):
                    await self.learn(node_id)
            case 4 | 5:
                await self.learn(node_id, 1 + random.integer(3))
            case 6 if random.integer(2):
                self.links.cut.add((node_id, random.integer(3)))
            case 6 | 7:
                self.links.cut.clear()
            case 8 if random.integer(3) == 0:
                await self.restart(node_id)
            case 9 if random.integer(3) == 0:
                self.copy_slow(node_id)
            case _:
                await asyncio.sleep(random.fraction() / 20)
        await asyncio.sleep(random.fraction() / 200)
        await self.look()

    def produce(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if not node.partition().is_leader:
            return
        self.produced_count += 1
        values = [b"%d-%d" % (self.produced_count, i) for i in range(1 + self.random.integer(3))]
        try:
            node.produce(*values)
        except KafkaError:
            return

    def produce_to_two(self, node_id: int) -> None:
        """Append by one request to the partition of all, and to one that nobody copies for long."""
        node = self.nodes[node_id]
        if not node.partition().is_leader:
            return
        self.produced_count += 1
        value = b"two-%d" % self.produced_count
        batch = encode_batch([Record(0, node.clock.wall_ms(), None, value)])

        def done(results: Sequence[ProduceResult]) -> None:
            info = results[0].info
            if results[0].error is None and info is not None:
                self.acknowledged[info.last_offset] = value

        node.replicas.leader_append.produce(
            [
                (place, bytes(16), memoryview(bytearray(batch)))
                for place in (TP, TopicPartition(TOPIC, 1 + node_id))
            ],
            acks=-1,
            timeout_ms=60_000,
            now_ms=node.clock.wall_ms(),
            done=done,
        )
        node.turn.finish()

    def copy_slow(self, node_id: int) -> None:
        node = self.nodes[node_id]
        slow, now_ms = node.partition(1 + node_id), node.clock.monotonic_ms()
        slow.follower_fetched(3, 1, slow.log.log_end_offset, 0, now_ms)

    async def restart(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if self.loses_power:
            await node.crash()
        else:
            await node.stop()
        again = ReplicaNode(node_id, self.links, disk=node.disk, topic_config=self.config)
        self.nodes[node_id] = await again.start(node.image)

    async def look(self) -> None:
        """Note what leaders have committed; it may never become anything else."""
        for node in self.nodes.values():
            partition = node.partition()
            if not partition.is_leader:
                continue
            for offset, epoch, value in await node.values():
                if offset >= node.log.high_watermark:
                    break
                known = self.committed.setdefault(offset, (epoch, value))
                assert known == (epoch, value), f"seed {self.seed}: offset {offset} has changed"

    async def end(self) -> None:
        """Heal everything: all become copies of the last leader, with all that was committed."""
        self.links.cut.clear()
        self.elect(self.random.integer(3))
        for node_id in NODES:
            self.copy_slow(node_id)
            await self.learn(node_id)
        leader = self.nodes[self.history[-1].leader]
        leader.produce(b"the last")
        await until(lambda: leader.log.high_watermark == leader.log.log_end_offset, 60)
        await self.look()
        expected = await leader.values()
        for node in self.nodes.values():
            assert await node.values() == expected, f"seed {self.seed}: node {node.node_id}"
        found = {offset: (epoch, value) for offset, epoch, value in expected}
        for offset, known in self.committed.items():
            assert found.get(offset) == known, f"seed {self.seed}: offset {offset} is lost"
        for offset, value in self.acknowledged.items():
            assert found[offset][1] == value, f"seed {self.seed}: {value!r} is lost"
        for node in self.nodes.values():
            assert node.fetchers.failed_count == 0
            assert TP in node.logs.logs
            await node.stop()


def walk(seed: int, *, page_cache: bool) -> tuple[int, int]:
    """Walk once; returns how many records were committed, and acknowledged beside another."""
    walked = Walk(seed, page_cache=page_cache)

    async def test() -> None:
        await walked.begin()
        for _ in range(STEPS):
            await walked.step()
        await walked.end()

    run_virtual(test())
    return len(walked.committed), len(walked.acknowledged)


@pytest.mark.parametrize("page_cache", [False, True])
def test_what_was_committed_stays_through_any_leader_changes(page_cache: bool) -> None:
    """REP-18, REP-19, KIP-101, KIP-279: with power cuts under group-fsync, with stops without."""
    counts = [walk(seed, page_cache=page_cache) for seed in range(25)]
    assert sum(committed for committed, _ in counts) > 25 * 5
    assert sum(acknowledged for _, acknowledged in counts) > 25

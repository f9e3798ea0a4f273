"""A partition and its leader, on disks in memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from barnabas_broker.config.topic import LogConfig
from barnabas_broker.replication.leader.delayed_produce import ProduceResult
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.replica_nodes import (
    TP,
    Links,
    ReplicaNode,
    led_by,
    topic_records,
)
from tests.support.virtual_loop import run_virtual

Scenario = Callable[["Leader"], Coroutine[Any, Any, None]]


class Proposals:
    """Keeps what partitions ask for; the test is the controller."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ...]] = []

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.asked.append(isr)


class Leader:
    """Node 0, which leads a partition with replicas on 0, 1 and 2; the followers are calls."""

    def __init__(self, node: ReplicaNode) -> None:
        self.node = node
        self.proposals = Proposals()
        self.partition_epoch = 0
        node.replicas.alter_partition_manager = self.proposals

    @property
    def partition(self) -> Partition:
        return self.node.partition()

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark

    async def state(
        self,
        *isr: int,
        leader: int = 0,
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = (0, 1, 2),
    ) -> None:
        """Have the metadata say who is in sync and who leads."""
        self.partition_epoch += 1
        await self.node.learn(
            [
                led_by(
                    leader,
                    leader_epoch,
                    isr=isr,
                    replicas=replicas,
                    partition_epoch=self.partition_epoch,
                )
            ]
        )

    def fetched(self, node_id: int, offset: int, *, start: int = 0, broker_epoch: int = 1) -> None:
        self.partition.follower_fetched(
            node_id, broker_epoch, offset, start, self.node.clock.monotonic_ms()
        )

    def produce(self, count: int) -> None:
        self.node.produce(*[b"v"] * count)

    def send(self, acks: int = -1, timeout_ms: int = 1_000) -> list[ProduceResult]:
        """One record by a Produce request; the results come into the list."""
        found: list[ProduceResult] = []
        batch = encode_batch([Record(0, 1_700_000_000_000, None, b"v")])
        self.node.replicas.leader_append.produce(
            [(TP, bytes(16), memoryview(bytearray(batch)))],
            acks=acks,
            timeout_ms=timeout_ms,
            now_ms=self.node.clock.wall_ms(),
            done=found.extend,
        )
        self.node.turn.finish()
        return found


def lead(scenario: Scenario, *, isr: tuple[int, ...] = (0, 1, 2), **settings: str) -> None:
    """Run a scenario with a fresh leader."""

    async def run() -> None:
        config = LogConfig.build({}, {key.replace("_", "."): v for key, v in settings.items()})
        node = await ReplicaNode(0, Links(), topic_config=config).start()
        await node.learn([*topic_records(), led_by(0, 0, isr=isr, replicas=(0, 1, 2))])
        await scenario(Leader(node))
        await node.stop()

    run_virtual(run())

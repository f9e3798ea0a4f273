"""Random walks of a leader, its followers and a controller whose answers come late or never."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.controller import brokers
from barnabas_broker.controller.isr import alter_partitions
from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.replication.leader.alter_partition_manager import AlterPartitionManager
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from tests.support.partition_images import SETTINGS, applied, state_of
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records
from tests.support.virtual_loop import run_virtual

FOLLOWERS = (1, 2)
STEPS = 300
LAG_MS = 30_000


class Walk:
    """The whole truth, of which the leader sees only a part."""

    def __init__(self, node: ReplicaNode, seed: int) -> None:
        self.node = node
        self.random = random.Random(seed)
        self.log_ends = dict.fromkeys(FOLLOWERS, 0)
        self.fenced: set[int] = set()
        # As the controller has it, and what of it has not come to the leader yet.
        self.truth = node.image
        self.on_the_way: list[MetadataRecord] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.high_watermark = 0
        self.shrinks = self.expands = 0
        self.late: list[AlterPartitionRequest] = []
        node.replicas.alter_partition_manager = AlterPartitionManager(
            self,
            node_id=0,
            broker_epoch=lambda: 1,
            spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            timeout_ms=1_000,
        )

    # The controller.

    async def send(self, request: AlterPartitionRequest, *, timeout_ms: int) -> Any:
        await asyncio.sleep(self.random.choice([0.0, 0.01, 0.5]))
        if self.random.random() < 0.2:
            if self.random.random() < 0.5:  # not lost, but late: after it was sent again
                self.late.append(request)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        response = self._judge(request)
        await asyncio.sleep(self.random.choice([0.0, 0.01, 0.5]))
        if self.random.random() < 0.2:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return response

    def _judge(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        before = self.isr
        records, topics = alter_partitions(self.truth, 0, 1, request.topics)
        self._commit(records)
        self.shrinks += len(self.isr) < len(before)
        self.expands += len(self.isr) > len(before)
        return AlterPartitionResponse(topics=topics)

    @property
    def isr(self) -> tuple[int, ...]:
        return state_of(self.truth).isr

    def _commit(self, records: Sequence[MetadataRecord]) -> None:
        self.truth = applied(self.truth, records)
        self.on_the_way += records

    def fence(self, node_id: int) -> None:
        self.fenced.add(node_id)
        self._commit(brokers.fence(self.truth, node_id, SETTINGS))

    def unfence(self, node_id: int) -> None:
        self.fenced.discard(node_id)
        self._commit(brokers.unfence(self.truth, node_id, SETTINGS))

    # One step.

    async def step(self) -> None:
        chosen, node_id = self.random.random(), self.random.choice(FOLLOWERS)
        partition = self.node.partition()
        if chosen < 0.25:
            self.node.produce(*[b"v"] * self.random.randrange(1, 5))
        elif chosen < 0.7:
            if node_id not in self.fenced or self.random.random() < 0.3:
                end_offset = self.log_ends[node_id]
                partition.follower_fetched(
                    node_id, 1, end_offset, 0, self.node.clock.monotonic_ms()
                )
                self.log_ends[node_id] = self.random.randint(
                    end_offset, partition.log.log_end_offset
                )
        elif chosen < 0.74:
            self.fence(node_id)
        elif chosen < 0.82:
            if node_id in self.fenced:
                self.unfence(node_id)
        elif chosen < 0.92:
            count = self.random.randint(0, len(self.on_the_way))
            arrived, self.on_the_way = self.on_the_way[:count], self.on_the_way[count:]
            await self.node.learn(arrived)
        elif chosen < 0.94 and self.late:
            self._judge(self.late.pop(0))
        elif chosen < 0.96:
            partition.check_isr_shrink(self.node.clock.monotonic_ms())
        else:
            await asyncio.sleep(self.random.choice([0.01, 1, LAG_MS / 1000]))
        await asyncio.sleep(0)
        self.check()

    def check(self) -> None:
        partition = self.node.partition()
        high_watermark = partition.log.high_watermark
        assert high_watermark >= self.high_watermark
        self.high_watermark = high_watermark
        for member in self.isr:
            if member:
                assert high_watermark <= self.log_ends[member], (
                    f"broker {member} may be elected at {self.log_ends[member]}"
                )

    async def settle(self) -> None:
        """Let everything arrive and everybody catch up: then all are in sync again."""
        for node_id in FOLLOWERS:
            self.unfence(node_id)
        for _ in range(200):
            await self.node.learn(self.on_the_way)
            self.on_the_way.clear()
            for node_id in FOLLOWERS:
                self.log_ends[node_id] = self.node.log.log_end_offset
                self.node.partition().follower_fetched(
                    node_id, 1, self.log_ends[node_id], 0, self.node.clock.monotonic_ms()
                )
            await asyncio.sleep(0.5)
            self.check()
        assert set(self.isr) == {0, 1, 2}
        assert self.node.log.high_watermark == self.node.log.log_end_offset


@pytest.mark.parametrize("block", range(4))
def test_whoever_may_be_elected_has_all_that_is_committed(block: int) -> None:
    """REP-8, REP-19, KIP-497: whatever is lost or late, the controller's ISR has it all.

    And when the faults end, all replicas are in sync again.
    """
    shrinks = expands = 0
    for seed in range(block * 10, block * 10 + 10):
        counts: list[int] = []

        async def run(seed: int = seed, counts: list[int] = counts) -> None:
            node = await ReplicaNode(0, Links()).start()
            first = replace(led_by(0, 0, isr=(0, 1, 2)), replicas=(0, 1, 2))
            await node.learn([*topic_records(), first])
            walk = Walk(node, seed)
            try:
                for _ in range(STEPS):
                    await walk.step()
                await walk.settle()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            counts += [walk.shrinks, walk.expands]
            for task in walk.tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await node.stop()

        run_virtual(run())
        shrinks += counts[0]
        expands += counts[1]
    assert shrinks > 0
    assert expands > 0

"""Random lives of brokers under a controller that changes, too: what must hold after each step."""

from __future__ import annotations

import random

import pytest

from barnabas_broker.controller.topics import NewTopic
from barnabas_broker.metadata.image import NO_LEADER, MetadataImage
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tests.support.controller_world import ControllerWorld, run_world
from tests.support.partition_images import cluster

NODES = range(4)
STEPS = 120


class Process:
    """A broker process as far as the controller can see it."""

    def __init__(self, node_id: int, number: int) -> None:
        self.incarnation = bytes([node_id, number % 256, number // 256]) + bytes(13)
        self.connection = f"connection {node_id}/{number}"
        self.is_stopping = False
        self.is_silent = False


class Walk:
    """Brokers that come and go, and what is checked of the metadata meanwhile."""

    def __init__(self, world: ControllerWorld, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.processes: dict[int, Process] = {}
        self.clean_epochs: dict[int, int] = {}
        self.epoch = world.image.epoch
        self.number = 0
        self.seen = world.image
        self.broker_epochs: set[tuple[int, int]] = set()

    async def run(self) -> None:
        for node_id in NODES:
            await self.start(node_id)
        await self.create()
        steps = [
            (self.start, 4),
            (self.kill, 2),
            (self.stop, 2),
            (self.fall_silent, 1),
            (self.beat, 12),
            (self.propose, 8),
            (self.pass_time, 6),
            (self.fail_over, 1),
            (self.create, 1),
        ]
        for _ in range(STEPS):
            (step,) = self.random.choices([s for s, _ in steps], [weight for _, weight in steps])
            await step(self.random.choice(NODES))
            self.check()
        await self.settle()

    async def start(self, node_id: int) -> None:
        if node_id in self.processes:
            return
        self.number += 1
        process = Process(node_id, self.number)
        previous = self.clean_epochs.pop(node_id, -1)
        answer = await self.world.register(
            node_id,
            incarnation_id=process.incarnation,
            connection=process.connection,
            previous_broker_epoch=previous,
        )
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        assert (node_id, answer.broker_epoch) not in self.broker_epochs
        self.broker_epochs.add((node_id, answer.broker_epoch))
        self.processes[node_id] = process
        for topic in self.world.image.topics.by_id.values():
            for state in topic.partitions:  # REG-8, and fenced until it asks
                assert node_id not in state.isr or state.isr == (node_id,)
                assert state.leader != node_id
        await self.beat(node_id)

    async def kill(self, node_id: int) -> None:
        process = self.processes.pop(node_id, None)
        if process is not None:
            self.world.controller.connection_ended(node_id, process.connection)
            if self.random.random() < 0.7:
                self.world.refused.refuse(node_id, self.world.clock.monotonic_ms())

    async def stop(self, node_id: int) -> None:
        if node_id in self.processes:
            self.processes[node_id].is_stopping = True
            await self.beat(node_id)

    async def fall_silent(self, node_id: int) -> None:
        if node_id in self.processes:
            self.processes[node_id].is_silent = True

    async def beat(self, node_id: int) -> None:
        process = self.processes.get(node_id)
        if process is None:
            return
        process.is_silent = False
        answer = await self.world.beat(
            node_id, want_shut_down=process.is_stopping, connection=process.connection
        )
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        if answer.should_shut_down:
            assert self.world.image.brokers[node_id].fenced
            self.clean_epochs[node_id] = self.world.image.brokers[node_id].epoch
            del self.processes[node_id]
            self.world.controller.connection_ended(node_id, process.connection)

    async def propose(self, node_id: int) -> None:
        """A leader takes a live replica more into its ISR, or puts one out."""
        image = self.world.image
        broker = image.brokers[node_id]
        for topic in image.topics.by_id.values():
            for index, state in enumerate(topic.partitions):
                if state.leader != node_id:
                    continue
                isr = {*state.isr} ^ {self.random.choice(state.replicas)} | {node_id}
                members = [
                    BrokerState(broker_id=node, broker_epoch=image.brokers[node].epoch)
                    for node in isr
                ]
                change = AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    new_isr_with_epochs=members,
                )
                await self.world.local.answer(
                    AlterPartitionRequest(
                        broker_id=node_id,
                        broker_epoch=broker.epoch,
                        topics=[
                            AlterPartitionRequestTopicData(
                                topic_id=topic.topic_id, partitions=[change]
                            )
                        ],
                    )
                )

    async def pass_time(self, _: int) -> None:
        """Those that are not silent beat meanwhile."""
        for _ in range(self.random.randrange(8)):
            await self.world.pass_ms(self.random.randrange(1, 1500))
            for node_id, process in list(self.processes.items()):
                if not process.is_silent:
                    await self.beat(node_id)

    async def fail_over(self, _: int) -> None:
        self.world.controller.resign()
        self.epoch += 1
        self.world.log.lead(self.epoch)
        self.world.controller.activate(self.epoch)

    async def create(self, _: int = 0) -> None:
        name = f"t{len(self.world.image.topics.by_name)}"
        topic = NewTopic(
            name=name, partition_count=3, replication_factor=self.random.randrange(1, 4)
        )
        await self.world.controller.create_topics([topic])

    async def settle(self) -> None:
        """Whoever is gone is fenced in the end; whoever is there leads whatever it may."""
        for node_id in NODES:
            await self.start(node_id)
            self.processes[node_id].is_stopping = False
        self.world.keep_beating(0)
        for _ in range(10):
            await self.world.pass_ms(1000)
            await self.beat(1)
        self.check()
        fenced = {node for node, broker in self.world.image.brokers.items() if broker.fenced}
        assert fenced == {2, 3}
        for node_id in (2, 3):
            await self.beat(node_id)
        self.check()
        for topic in self.world.image.topics.by_id.values():
            for state in topic.partitions:
                assert state.leader != NO_LEADER

    def check(self) -> None:
        image, before = self.world.image, self.seen
        for topic in image.topics.by_id.values():
            for index, state in enumerate(topic.partitions):
                assert state.isr
                assert set(state.isr) <= set(state.replicas)
                assert state.leader == NO_LEADER or state.leader in state.isr
                if state.leader != NO_LEADER:
                    assert not image.brokers[state.leader].fenced  # REG-5
                for member in state.isr:
                    assert len(state.isr) == 1 or not image.brokers[member].fenced  # REG-5
                self.check_epochs(before, topic.topic_id, index, image)
        self.seen = image

    def check_epochs(
        self, before: MetadataImage, topic_id: bytes, index: int, image: MetadataImage
    ) -> None:
        """LEAD-6: epochs rise with what they tell of, and never fall."""
        if topic_id not in before.topics.by_id:
            return
        old = before.topics.by_id[topic_id].partitions[index]
        new = image.topics.by_id[topic_id].partitions[index]
        assert new.leader_epoch >= old.leader_epoch
        assert new.partition_epoch >= old.partition_epoch
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch
        if new != old:
            assert new.partition_epoch > old.partition_epoch


@pytest.mark.parametrize("seed", range(60))
def test_brokers_come_and_go_and_the_metadata_stays_sound(seed: int) -> None:
    """REG-4 to REG-9, STOP-3 to STOP-7, LEAD-1, LEAD-6, CTL-5, CTL-6."""

    async def test(world: ControllerWorld) -> None:
        await Walk(world, seed).run()

    run_world(cluster([]), test)

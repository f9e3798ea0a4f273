"""Whom a leader's knowledge of a follower is about: the identity rule of decision 0013."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.controller.isr import alter_partitions
from barnabas_broker.metadata.records import BrokerStateRecord, MetadataRecord, RemoveBrokerRecord
from barnabas_broker.replication.leader.alter_partition_manager import AlterPartitionManager
from barnabas_broker.replication.partition import Partition
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from tests.broker.replication.fetching_follower import Follower
from tests.support.replica_nodes import (
    Links,
    ReplicaNode,
    broker_record,
    led_by,
    topic_records,
    until,
)
from tests.support.virtual_loop import run_virtual

REPLICAS = (0, 1, 2)
DISK_A, DISK_B, UNKNOWN_DISK = b"a" * 16, b"b" * 16, bytes(16)


class Bench:
    """Node 0, which leads a partition with replicas on 0, 1 and 2; keeps what it proposes."""

    def __init__(self, node: ReplicaNode) -> None:
        self.node = node
        self.asked: list[tuple[int, ...]] = []
        self.follower = Follower(node)
        node.replicas.alter_partition_manager = self

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.asked.append(isr)

    @property
    def partition(self) -> Partition:
        return self.node.partition()

    def known_end(self, node_id: int = 1) -> int:
        state = self.partition.followers.get(node_id)
        assert state is not None
        return state.log_end_offset

    async def state(
        self,
        partition_epoch: int,
        *,
        isr: tuple[int, ...],
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = REPLICAS,
        directories: tuple[bytes, ...] = (),
        brokers: tuple[MetadataRecord, ...] = (),
    ) -> None:
        """Have new metadata arrive, all of it at once."""
        record = led_by(
            0, leader_epoch, replicas=replicas, isr=isr, partition_epoch=partition_epoch
        )
        await self.node.learn([*brokers, replace(record, directories=directories)])

    async def caught_up(self, count: int = 10) -> None:
        """Have broker 1 fetch all of some records."""
        self.node.produce(*[b"v"] * count)
        await self.follower.fetch({0: count}, wait_ms=0)
        assert self.known_end() == count


def bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a fresh leader; brokers 0 and 1 are in sync, 2 is not."""

    async def run() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0, isr=(0, 1), replicas=REPLICAS)])
        await test(Bench(node))
        await node.stop()

    run_virtual(run())


def test_a_replica_assigned_again_while_the_leader_lags_starts_with_nothing_known() -> None:
    """REP-7: removed (leader epoch 1) and added again, all in one delta: its log may be empty."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        await it.state(3, isr=(0,), leader_epoch=1)
        assert it.known_end() == -1
        it.partition.check_isr_shrink(it.node.clock.monotonic_ms())
        assert it.asked == []
        await it.follower.fetch({0: 10}, leader_epoch=1, wait_ms=0)
        assert it.asked == [(0, 1)]

    bench(test)


def test_members_of_the_isr_stay_known_when_the_leader_goes_on_in_the_next_epoch() -> None:
    """LEAD-11: nobody leaves the ISR and comes back without a proposal of the leader."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        await it.state(1, isr=(0, 1), leader_epoch=1, replicas=(0, 1))
        assert it.known_end() == 10

    bench(test)


def test_a_replica_in_another_directory_starts_with_nothing_known() -> None:
    """KIP-858: the follower is asked to say what it has; until then nothing is committed on it."""

    async def test(it: Bench) -> None:
        await it.state(1, isr=(0, 1), directories=(DISK_A,) * 3)
        await it.caught_up()
        waiting = asyncio.ensure_future(it.follower.fetch())
        await asyncio.sleep(0.01)
        await it.state(2, isr=(0, 1), directories=(DISK_A, DISK_B, DISK_A))
        assert it.known_end() == -1
        assert (await waiting)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        it.node.produce(b"v")
        assert it.node.log.high_watermark == 10
        await it.follower.fetch({0: 11}, wait_ms=0)
        assert it.node.log.high_watermark == 11

    bench(test)


def test_a_directory_that_becomes_known_makes_no_other_replica() -> None:
    """KIP-858: brokers tell where they put a replica after they have made it."""

    async def test(it: Bench) -> None:
        await it.state(1, isr=(0, 1), directories=(DISK_A, UNKNOWN_DISK, DISK_A))
        await it.caught_up()
        await it.state(2, isr=(0, 1), directories=(DISK_A, DISK_B, DISK_A))
        assert it.known_end() == 10

    bench(test)


@pytest.mark.parametrize("in_sync", [True, False])
def test_a_broker_that_registers_again_starts_with_nothing_known(in_sync: bool) -> None:
    """KIP-903: its disk may be another one. In the ISR it holds the high watermark back."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        isr = (0, 1) if in_sync else (0,)
        await it.state(1, isr=isr, brokers=(broker_record(1, broker_epoch=7),))
        assert it.known_end() == -1
        it.node.produce(b"v")
        assert it.node.log.high_watermark == (10 if in_sync else 11)
        it.partition.check_isr_shrink(it.node.clock.monotonic_ms())
        assert it.asked == []
        late = await it.follower.fetch({0: 11}, wait_ms=0)
        assert late[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert it.known_end() == -1
        await Follower(it.node, broker_epoch=7).fetch({0: 11}, wait_ms=0)
        assert it.node.log.high_watermark == 11
        assert it.asked == ([] if in_sync else [(0, 1)])

    bench(test)


@pytest.mark.parametrize("version", [17, 14])
@pytest.mark.parametrize("broker_epoch", [10**12, 2, 0, -1])
def test_only_exactly_the_registered_broker_epoch_counts(broker_epoch: int, version: int) -> None:
    """KIP-903: a Fetch under an invented epoch moves no high watermark and joins no ISR."""

    async def test(it: Bench) -> None:
        it.node.produce(*[b"v"] * 10)
        for node_id in (1, 2):
            invented = Follower(it.node, node_id, broker_epoch)
            answer = await invented.fetch({0: 10}, version=version, wait_ms=0)
            assert answer[0].error_code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
            )
            assert it.known_end(node_id) == -1
        assert it.node.log.high_watermark == 0
        assert it.asked == []

    bench(test)


def test_a_broker_that_is_not_registered_counts_for_nothing() -> None:
    """KIP-903: also where it has a replica and its epoch is the one that it had."""

    async def test(it: Bench) -> None:
        await it.node.learn([RemoveBrokerRecord(1, 1)])
        it.node.produce(b"v")
        await it.follower.fetch({0: 1}, wait_ms=0)
        assert it.node.log.high_watermark == 0

    bench(test)


def test_an_invented_broker_epoch_takes_nothing_from_the_real_follower() -> None:
    """A partition tells one session of a follower of its moves: that of the registered epoch."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        await Follower(it.node, 1, 10**12).fetch({0: 10}, wait_ms=0)
        waiting = asyncio.ensure_future(it.follower.fetch())
        await asyncio.sleep(0.01)
        it.node.produce(b"v")
        assert (await waiting)[0].records

    bench(test)


def test_a_fetch_counts_as_soon_as_its_broker_epoch_is_known() -> None:
    """A follower may hear of its registration before its leader does: no error, no pause."""

    async def test(it: Bench) -> None:
        it.node.produce(b"v")
        again = Follower(it.node, broker_epoch=7)
        waiting = asyncio.ensure_future(again.fetch({0: 1}))
        await asyncio.sleep(0.01)
        assert it.node.log.high_watermark == 0
        assert not waiting.done()
        await it.node.learn([broker_record(1, broker_epoch=7)])
        assert it.node.log.high_watermark == 1
        it.node.produce(b"v")
        assert (await waiting)[0].records

    bench(test)


def test_a_session_belongs_to_one_broker_epoch() -> None:
    """KIP-903: what an earlier incarnation said in it does not count for the next one."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        await it.node.learn([broker_record(1, broker_epoch=7)])
        it.follower.broker_epoch = 7
        await it.follower.fetch(wait_ms=0)
        assert it.follower.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert it.known_end() == -1

    bench(test)


def test_closed_sessions_are_forgotten() -> None:
    """Those without an id end with their answer, the others when a newer one replaces them."""

    async def test(it: Bench) -> None:
        await it.follower.fetch({0: 0}, wait_ms=0)
        it.follower.session_epoch = -1
        await it.follower.fetch({0: 0}, wait_ms=0)
        assert not it.node.replicas.follower_sessions.count

    bench(test)


class Controller:
    """The channel to a controller whose metadata may be newer than the leader's."""

    def __init__(self, node: ReplicaNode) -> None:
        self.image = node.image
        self.answers: list[int] = []
        self.may_answer = asyncio.Event()

    async def send(self, request: AlterPartitionRequest, *, timeout_ms: int) -> Any:
        await self.may_answer.wait()
        _, topics = alter_partitions(self.image, 0, 1, request.topics)
        self.answers += [item.error_code for topic in topics for item in topic.partitions]
        return AlterPartitionResponse(topics=topics)


def test_a_proposal_carries_the_broker_epoch_that_fetched() -> None:
    """KIP-903: not one that is known when the request is sent, or sent again; so it is refused."""

    async def test(it: Bench) -> None:
        controller = Controller(it.node)
        tasks: list[asyncio.Task[None]] = []
        it.node.replicas.alter_partition_manager = AlterPartitionManager(
            controller,
            node_id=0,
            broker_epoch=lambda: 1,
            spawn=lambda work: tasks.append(asyncio.ensure_future(work)),
            timeout_ms=1_000,
        )
        it.node.produce(b"v")
        await Follower(it.node, 2).fetch({0: 1}, wait_ms=0)
        assert it.partition.proposed_isr == (0, 1, 2)
        # Before the request is made: broker 2 comes back, with nothing, and fetches from 0.
        await it.node.learn([broker_record(2, broker_epoch=7)])
        await Follower(it.node, 2, broker_epoch=7).fetch({0: 0}, wait_ms=0)
        controller.image = it.node.image
        controller.may_answer.set()
        await until(lambda: bool(controller.answers))
        assert controller.answers[0] == ErrorCode.INELIGIBLE_REPLICA
        await until(lambda: it.partition.proposed_isr is None)
        await asyncio.gather(*tasks)

    bench(test)


def test_a_broker_that_is_fenced_and_unfenced_is_the_same() -> None:
    """REG-5: its process and its disk are what they were, so what it fetched still counts."""

    async def test(it: Bench) -> None:
        await it.caught_up()
        await it.state(1, isr=(0,), brokers=(BrokerStateRecord(1, 1, True, False),))
        assert it.asked == []
        await it.node.learn([BrokerStateRecord(1, 1, False, False)])
        assert it.asked == [(0, 1)]

    bench(test)

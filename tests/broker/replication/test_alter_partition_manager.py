"""How wished ISRs come to the controller, and what becomes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.replication.leader.alter_partition_manager import (
    BACKOFF,
    AlterPartitionManager,
    keep_shrinking,
)
from barnabas_protocol import codec
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from tests.support.replica_nodes import Links, ReplicaNode, led_by, topic_records
from tests.support.virtual_loop import run_virtual

Scenario = Callable[["Bench"], Coroutine[Any, Any, None]]


class Bench:
    """Node 0, which leads some partitions alone, and a controller that does as a test says."""

    def __init__(self, node: ReplicaNode) -> None:
        self.node = node
        self.requests: list[AlterPartitionRequest] = []
        self.broker_epoch = 40
        self.code = ErrorCode.NONE  # of each partition
        self.top_code = ErrorCode.NONE
        self.failure: KafkaError | None = None
        self.is_held = asyncio.Event()
        self.is_held.set()
        self.is_unchanged = False
        self.tasks: list[asyncio.Task[None]] = []
        self.changes = node.replicas.alter_partition_manager = AlterPartitionManager(
            self,
            node_id=0,
            broker_epoch=lambda: self.broker_epoch,
            spawn=lambda work: self.tasks.append(asyncio.ensure_future(work)),
            timeout_ms=1_000,
        )

    async def send(self, request: AlterPartitionRequest, *, timeout_ms: int) -> Any:
        for version in (2, 3):  # both can carry it
            codec.decode(AlterPartitionRequest, codec.encode(request, version), version)
        self.requests.append(request)
        await self.is_held.wait()
        if self.failure is not None:
            raise self.failure
        return AlterPartitionResponse(
            error_code=self.top_code,
            topics=[
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        AlterPartitionResponsePartitionData(
                            partition_index=partition.partition_index,
                            error_code=self.code,
                            partition_epoch=partition.partition_epoch
                            + (not self.is_unchanged and not self.code),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def fetched(self, index: int = 0, *, node_id: int = 1) -> None:
        """A follower has all there is."""
        partition = self.node.partition(index)
        partition.follower_fetched(
            node_id, 1, partition.log.log_end_offset, 0, self.node.clock.monotonic_ms()
        )

    async def confirmed(self, *isr: int, index: int = 0) -> None:
        """The metadata says so, too."""
        epoch = self.node.partition(index).image.partition_epoch + 1
        await self.node.learn(
            [replace(led_by(0, 0, index=index, isr=isr, partition_epoch=epoch), replicas=(0, 1, 2))]
        )

    def asked(self) -> list[tuple[int, list[int]]]:
        """Partition and wished ISR, of all requests."""
        return [
            (partition.partition_index, partition.new_isr)
            for request in self.requests
            for topic in request.topics
            for partition in topic.partitions
        ]


def change(scenario: Scenario, *, partitions: int = 3) -> None:
    """Run a scenario."""

    async def run() -> None:
        node = await ReplicaNode(0, Links()).start()
        records: list[MetadataRecord] = [*topic_records()]
        records += [led_by(0, 0, index=index, replicas=(0, 1, 2)) for index in range(partitions)]
        await node.learn(records)
        bench = Bench(node)
        await scenario(bench)
        for task in bench.tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*bench.tasks, return_exceptions=True)
        await node.stop()

    run_virtual(run())


async def pause(seconds: float = 0.01) -> None:
    """Let the loop work for a while of virtual time."""
    await asyncio.sleep(seconds)


def test_partitions_whose_wishes_fail_alike_are_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A controller that refuses thousands each second must not fill the log."""

    async def test(bench: Bench) -> None:
        bench.code = ErrorCode.UNKNOWN_SERVER_ERROR
        for index in range(3):
            bench.fetched(index)
        await pause()
        lines = [record.getMessage() for record in caplog.records]
        (line,) = [line for line in lines if line.endswith("the ISR is not changed, error -1")]
        assert "-0, " in line
        assert bench.changes.failures_count == 3

    caplog.set_level(logging.INFO)
    change(test)


def test_all_wishes_of_a_turn_go_in_one_request() -> None:
    """REP-8: batched, so that a burst does not flood the controller."""

    async def test(bench: Bench) -> None:
        for index in range(3):
            bench.fetched(index)
        await pause()
        (request,) = bench.requests
        assert request.broker_id == 0
        assert request.broker_epoch == 40
        (topic,) = request.topics
        assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
        states = topic.partitions[0].new_isr_with_epochs
        assert [(state.broker_id, state.broker_epoch) for state in states] == [(0, 40), (1, 1)]
        assert bench.changes.expands_count == 3
        assert bench.changes.pending_count == 0

    change(test)


def test_partitions_that_change_alike_are_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker that comes back enters thousands of ISRs: nobody could read a line for each."""

    async def scenario(bench: Bench) -> None:
        for index in range(25):
            bench.fetched(index)
        await pause()
        (line,) = [record.getMessage() for record in caplog.records if "ISR" in record.message]
        assert line.startswith("the ISR grows from [0] to [0, 1]: t-0, t-1, t-2, ")
        assert line.endswith("t-19 and 5 more")
        assert bench.changes.expands_count == 25

    caplog.set_level(logging.INFO)
    change(scenario, partitions=25)


def test_one_request_is_under_way_at_a_time() -> None:
    """REP-8: what is wished meanwhile goes with the next one, together."""

    async def test(bench: Bench) -> None:
        bench.is_held.clear()
        bench.fetched(0)
        await pause()
        bench.fetched(1)
        bench.fetched(2)
        await pause(1)
        assert len(bench.requests) == 1
        bench.is_held.set()
        await pause()
        assert bench.asked() == [(0, [0, 1]), (1, [0, 1]), (2, [0, 1])]
        assert len(bench.requests) == 2

    change(test)


def test_a_granted_wish_stays_open_until_the_metadata_says_so() -> None:
    """REP-8: the answer alone changes nothing; both ISRs count until then."""

    async def test(bench: Bench) -> None:
        bench.fetched()
        await pause()
        partition = bench.node.partition()
        assert partition.maximal_isr == {0, 1}
        assert partition.image.isr == (0,)
        bench.fetched(node_id=2)  # one at a time
        await pause()
        assert len(bench.requests) == 1
        await bench.confirmed(0, 1)
        await pause()
        assert partition.image.isr == (0, 1)
        assert bench.asked()[1:] == [(0, [0, 1, 2])]

    change(test)


def test_a_request_that_was_lost_is_sent_again_as_it_was() -> None:
    """REP-8: nobody knows whether it was carried out, so both ISRs go on counting."""

    async def test(bench: Bench) -> None:
        bench.failure = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        bench.fetched()
        await pause(0.2)
        assert bench.node.partition().maximal_isr == {0, 1}
        bench.failure = None
        bench.broker_epoch = 41
        await pause(2 * BACKOFF.maximum_ms / 1000)
        assert set(map(str, bench.asked())) == {"(0, [0, 1])"}
        assert bench.requests[-1].broker_epoch == 41
        assert bench.changes.expands_count == 1
        assert bench.changes.pending_count == 0

    change(test)


def test_an_ineligible_replica_is_given_up() -> None:
    """REP-8: INELIGIBLE_REPLICA says for certain that the ISR is the old one."""

    async def test(bench: Bench) -> None:
        bench.code = ErrorCode.INELIGIBLE_REPLICA
        bench.fetched()
        await pause()
        assert bench.node.partition().proposed_isr is None
        assert bench.node.partition().maximal_isr == {0}
        bench.code = ErrorCode.NONE
        bench.fetched()
        await pause(BACKOFF.maximum_ms / 1000)
        assert bench.changes.expands_count == 1

    change(test)


def test_an_outdated_wish_counts_until_newer_metadata_comes() -> None:
    """REP-8: INVALID_UPDATE_VERSION may be the echo of our own wish, which was carried out."""

    async def test(bench: Bench) -> None:
        bench.code = ErrorCode.INVALID_UPDATE_VERSION
        bench.fetched()
        await pause()
        assert bench.node.partition().maximal_isr == {0, 1}
        await bench.confirmed(0, 1)
        count = len(bench.requests)
        await pause(5)
        assert len(bench.requests) == count
        assert bench.node.partition().proposed_isr is None

    change(test)


def test_one_stuck_wish_does_not_hold_up_the_others() -> None:
    """REP-8: a new wish goes out soon, though the pause after a failure has grown."""

    async def test(bench: Bench) -> None:
        bench.code = ErrorCode.INVALID_UPDATE_VERSION
        bench.fetched(0)
        await pause(10)
        bench.requests.clear()
        bench.fetched(1)
        await pause(0.15)
        assert (1, [0, 1]) in bench.asked()

    change(test)


def test_a_wish_that_changes_nothing_is_closed() -> None:
    """The controller has it so already: no metadata will come to say so."""

    async def test(bench: Bench) -> None:
        bench.is_unchanged = True
        bench.fetched()
        await pause()
        assert bench.node.partition().proposed_isr is None

    change(test)


def test_a_lost_leadership_ends_the_wish() -> None:
    """FENCED_LEADER_EPOCH, NEW_LEADER_ELECTED: another leader asks from now on."""

    async def test(bench: Bench) -> None:
        bench.code = ErrorCode.NEW_LEADER_ELECTED
        bench.fetched()
        await pause()
        await bench.node.learn([replace(led_by(1, 1), replicas=(0, 1, 2))])
        count = len(bench.requests)
        await pause(5)
        assert len(bench.requests) == count
        assert bench.changes.pending_count == 0

    change(test)


def test_the_timer_finds_who_lags_behind() -> None:
    """REP-6: looked for twice in `replica.lag.time.max.ms`."""

    async def test(bench: Bench) -> None:
        await bench.confirmed(0, 1)
        node = bench.node
        timer = asyncio.ensure_future(
            keep_shrinking(node.replicas.partitions.values, node.clock, 30_000)
        )
        bench.fetched()
        node.produce(b"v")
        await pause(29)
        assert bench.requests == []
        await pause(17)
        assert bench.asked() == [(0, [0])]
        assert bench.changes.shrinks_count == 1
        timer.cancel()

    change(test, partitions=1)

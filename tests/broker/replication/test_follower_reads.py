"""Consumers that read from followers, and records that are deleted on all replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.handlers import delete_records as delete_handler
from barnabas_broker.metadata.image import BrokerImage
from barnabas_broker.network.heavy_work import HeavyWork
from barnabas_broker.replication.leader.delayed_fetch import (
    FetchParameters,
    PartitionData,
    replica_in_rack,
)
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.replica_nodes import (
    TOPIC,
    TOPIC_ID,
    TP,
    Links,
    ReplicaNode,
    led_by,
    topic_records,
    until,
)
from tests.support.virtual_loop import run_virtual


async def pair(*, isr: tuple[int, ...] = (0, 1)) -> list[ReplicaNode]:
    links = Links()
    nodes = [await ReplicaNode(node_id, links).start() for node_id in (0, 1)]
    for node in nodes:
        await node.learn([*topic_records(), led_by(0, 0, isr=isr)])
    return nodes


async def stop(nodes: list[ReplicaNode]) -> None:
    for node in nodes:
        await node.stop()


def racked(node: ReplicaNode, racks: Mapping[int, str]) -> dict[int, BrokerImage]:
    brokers = node.image.brokers
    return {node_id: replace(brokers[node_id], rack=rack) for node_id, rack in racks.items()}


def asks(offset: int) -> FetchPartition:
    return FetchPartition(TP, TOPIC_ID, offset, 1 << 20)


def read(
    node: ReplicaNode, offset: int, *, wait_ms: int = 0, **options: Any
) -> list[PartitionData]:
    """What a consumer is answered; empty as long as it waits."""
    results: list[PartitionData] = []
    parameters = FetchParameters(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        read_committed=False,
        is_follower=False,
        **options,
    )
    node.replicas.client_fetches.fetch([asks(offset)], parameters, results.extend)
    return results


def test_a_consumer_is_sent_to_the_follower_in_its_rack() -> None:
    """KIP-392: one that is in sync and has the offset; not if the leader is as near."""

    async def test() -> None:
        nodes = await pair()
        leader = nodes[0]
        leader.produce(b"a", b"b")
        await until(lambda: leader.log.high_watermark == 2)
        partition, brokers = leader.partition(), racked(leader, {0: "x", 1: "y"})
        assert replica_in_rack(partition, asks(1), "y", brokers) == 1
        assert replica_in_rack(partition, asks(1), "x", brokers) == -1
        assert replica_in_rack(partition, asks(1), "z", brokers) == -1
        assert replica_in_rack(partition, asks(3), "y", brokers) == -1
        brokers[1] = replace(brokers[1], fenced=True)
        assert replica_in_rack(partition, asks(1), "y", brokers) == -1
        brokers = racked(leader, {0: "y", 1: "y"})
        assert replica_in_rack(partition, asks(1), "y", brokers) == -1
        await stop(nodes)

    run_virtual(test())


def test_a_preferred_replica_is_told_at_once_and_without_records() -> None:
    """KIP-392, REQ-5: the consumer reads there from then on."""

    async def test() -> None:
        nodes = await pair()
        (data,) = read(nodes[0], 0, wait_ms=500, choose_replica=lambda partition, request: 1)
        assert data.preferred_replica == 1
        assert data.size_bytes == 0
        assert data.error == ErrorCode.NONE
        await stop(nodes)

    run_virtual(test())


def test_a_follower_serves_consumers_what_it_knows_to_be_committed() -> None:
    """KIP-392: up to its own high watermark; who waits there is woken as that moves."""

    async def test() -> None:
        nodes = await pair()
        leader, follower = nodes
        waiting = read(follower, 0, wait_ms=5_000, leader_only=False)
        assert waiting == []
        leader.produce(b"a")
        await until(lambda: follower.log.log_end_offset == 1)
        assert follower.log.high_watermark == 0
        assert waiting == []
        await until(lambda: bool(waiting))
        assert waiting[0].size_bytes > 0
        assert waiting[0].high_watermark == 1
        await stop(nodes)

    run_virtual(test())


def test_old_consumers_are_served_by_the_leader_only() -> None:
    """KIP-392: before version 11 nobody could be sent elsewhere."""

    async def test() -> None:
        nodes = await pair()
        (data,) = read(nodes[1], 0, leader_only=True)
        assert data.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await stop(nodes)

    run_virtual(test())


def test_a_follower_of_nobody_serves_nobody() -> None:
    """KIP-392: without a leader there is nothing to follow, and the client looks for one."""

    async def test() -> None:
        nodes = await pair()
        for node in nodes:
            await node.learn([led_by(-1, 1, isr=(0,))])
        (data,) = read(nodes[1], 0, leader_only=False)
        assert data.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await stop(nodes)

    run_virtual(test())


async def delete(node: ReplicaNode, offset: int, timeout_ms: int = 2_000) -> tuple[int, int]:
    """Error code and low watermark."""
    heavy_work = HeavyWork(asyncio.to_thread, "REPLICATION")

    async def note_log_starts(logs: object) -> None:
        """What the disk has is not looked at here."""

    services: Any = SimpleNamespace(
        replicas=node.replicas,
        heavy_work=heavy_work,
        authorizer=None,
        logs=SimpleNamespace(note_log_starts=note_log_starts),
    )
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=timeout_ms,
    )
    in_flight: Any = None
    response = await delete_handler.handle(services, in_flight, request)
    (result,) = response.topics[0].partitions
    return result.error_code, result.low_watermark


def test_deleting_records_waits_for_the_live_replicas() -> None:
    """SEG-13: answered with the low watermark, when both have it; soon, as it is told at once."""

    async def test() -> None:
        nodes = await pair()
        leader, follower = nodes
        leader.produce(b"a", b"b", b"c")
        await until(lambda: leader.log.high_watermark == 3)
        began = asyncio.get_running_loop().time()
        assert await delete(leader, 2) == (ErrorCode.NONE, 2)
        assert asyncio.get_running_loop().time() - began < 0.1
        assert follower.log.log_start_offset == 2
        assert await delete(leader, -1) == (ErrorCode.NONE, 3)
        await stop(nodes)

    run_virtual(test())


def test_deleting_records_times_out_without_its_replicas() -> None:
    """SEG-13: REQUEST_TIMED_OUT; the leader's log start stays where it was moved."""

    async def test() -> None:
        nodes = await pair()
        leader = nodes[0]
        leader.produce(b"a", b"b")
        await until(lambda: leader.log.high_watermark == 2)
        leader.links.cut_off(1)
        assert await delete(leader, 1, timeout_ms=300) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert leader.log.log_start_offset == 1
        leader.links.cut.clear()
        assert await delete(leader, 1, timeout_ms=30_000) == (ErrorCode.NONE, 1)
        await stop(nodes)

    run_virtual(test())


@pytest.mark.parametrize("offset", [4, -2])
def test_deleting_beyond_what_is_committed_is_refused(offset: int) -> None:
    """SEG-13: OFFSET_OUT_OF_RANGE above the high watermark."""

    async def test() -> None:
        nodes = await pair()
        nodes[0].produce(b"a")
        await until(lambda: nodes[0].log.high_watermark == 1)
        assert await delete(nodes[0], offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        await stop(nodes)

    run_virtual(test())

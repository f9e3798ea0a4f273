"""Reads of committed records from the disk, while what they read is taken out of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.tail_cache import TailCache
from barnabas_broker.replication.leader.delayed_fetch import FetchParameters, PartitionData
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.control import ControlType, encode_marker
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.share.share_bench import ShareBench, share
from tests.support.replica_nodes import TOPIC_ID, TP, ReplicaNode

PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def fill(node: ReplicaNode) -> PartitionLog:
    """A closed segment with an aborted transaction, none of it in memory, and another segment."""
    partition, now_ms = node.partition(), node.clock.wall_ms()
    partition.log.local.use_tail_cache(TailCache(0))

    def append(data: bytes, *, internal: bool = False) -> None:
        partition.append(memoryview(bytearray(data)), 1, now_ms, internal=internal)
        node.turn.finish()

    records = [Record(index, now_ms, None, b"aborted") for index in range(2)]
    append(encode_batch(records, base_sequence=0, is_transactional=True, **PRODUCER))
    marker = encode_marker(ControlType.ABORT, coordinator_epoch=0, timestamp=now_ms, **PRODUCER)
    append(marker, internal=True)
    partition.log.roll()
    node.produce(b"plain")
    return partition.log


async def segment_removed_while_it_is_read(
    log: PartitionLog, node: ReplicaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As retention does it, while a thread reads the oldest segment."""
    await log.flush()
    oldest = log.segments.first
    oldest.drop_indexes()
    assert oldest.transaction_index is not None
    read_in_thread = node.disk.run

    async def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        found = await read_in_thread(function, *args, **kwargs)
        if log.segments.first is oldest:
            log.advance_log_start_offset(log.segments.active.base_offset)
            log.segments.remove([oldest])
            log.local.removal.remove([oldest], 60_000)
        return found

    monkeypatch.setattr(node.disk, "run", run)


def test_no_consumer_is_given_aborted_records_without_their_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TXL-7: the index of aborted transactions goes with the segment that a thread still reads."""

    async def scenario(bench: ShareBench) -> None:
        node = bench.node
        await segment_removed_while_it_is_read(fill(node), node, monkeypatch)
        answered: asyncio.Future[Sequence[PartitionData]] = asyncio.Future()
        parameters = FetchParameters(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, read_committed=True, is_follower=False
        )
        node.replicas.client_fetches.fetch(
            [FetchPartition(TP, TOPIC_ID, 0, 1 << 20)], parameters, answered.set_result
        )
        (data,) = await answered
        assert (data.error, data.size_bytes) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)

    share(scenario)


def test_no_share_group_is_given_aborted_records_as_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHR-34: the same for members of a group with `share.isolation.level=read_committed`."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(read_committed=True)
        member, node = bench.member(), bench.node
        log = fill(node)
        await segment_removed_while_it_is_read(log, node, monkeypatch)
        acquired = [
            offset
            for one in await member.fetch(max_wait_ms=100)
            for first, last, _ in one.acquired
            for offset in range(first, last + 1)
        ]
        assert not {0, 1} & set(acquired)

    share(scenario)

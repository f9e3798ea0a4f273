"""Waits for appends to several partitions, one of which is interrupted while another is slow."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from barnabas_broker.replication.committed_writer import CommittedWriter
from barnabas_broker.replication.leader.delayed_produce import ProduceResult
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records.record import Record, encode_batch
from tests.support.replica_nodes import TOPIC, Links, ReplicaNode, led_by, topic_records, until
from tests.support.virtual_loop import run_virtual

INTERRUPTED, SLOW = 0, 1
PLACES = [TopicPartition(TOPIC, INTERRUPTED), TopicPartition(TOPIC, SLOW)]
BATCH = encode_batch([Record(0, 1_700_000_000_000, None, b"ours")])


class Brokers:
    """Node 0 leads two partitions; node 1 copies the first of them, a call the second."""

    def __init__(self, leader: ReplicaNode, follower: ReplicaNode) -> None:
        self.leader = leader
        self.follower = follower

    async def learn(self, leader: int, leader_epoch: int) -> None:
        """Have both know who leads the first partition."""
        record = led_by(leader, leader_epoch, replicas=(0, 1), isr=(0, 1))
        for node in (self.follower, self.leader):
            await node.learn([record])

    async def copy_slow(self) -> None:
        """Have the second partition copied at last."""
        node = self.leader
        node.partition(SLOW).follower_fetched(2, 1, 1, 0, node.clock.monotonic_ms())


Interruption = Callable[[Brokers], Coroutine[Any, Any, None]]
# Appends to both partitions; the codes can be awaited then.
Append = Callable[[ReplicaNode], Awaitable[list[ErrorCode | None]]]


async def another_leads(brokers: Brokers) -> None:
    """Let another broker lead, whose log has another record in that place, and ours again."""
    node = brokers.leader
    node.turn.finish()
    await brokers.learn(1, 1)
    brokers.follower.produce(b"another's", index=INTERRUPTED)
    node.links.cut.clear()
    await until(lambda: brokers.follower.log.high_watermark == 1)
    await brokers.learn(0, 2)
    node.produce(b"later", index=INTERRUPTED)
    await until(lambda: node.log.high_watermark == 2)
    values = [value for _, _, value in await node.values(INTERRUPTED)]
    assert values == [b"another's", b"later"]


async def no_room(brokers: Brokers) -> None:
    """Let the write find no room: a later record takes the place of what was staged."""
    node = brokers.leader
    log = node.log
    node.disk.fail("append", f"{TOPIC}-{INTERRUPTED}", errno.ENOSPC)
    node.turn.finish()
    await until(lambda: node.log is not log)
    node.produce(b"later", index=INTERRUPTED)
    node.links.cut.clear()
    await until(lambda: node.log.high_watermark == 1)
    assert [value for _, _, value in await node.values(INTERRUPTED)] == [b"later"]


def by_produce(node: ReplicaNode) -> Awaitable[list[ErrorCode | None]]:
    """Append by one Produce request with acks=all."""
    results: list[ProduceResult] = []
    node.replicas.leader_append.produce(
        [(place, bytes(16), memoryview(bytearray(BATCH))) for place in PLACES],
        acks=-1,
        timeout_ms=30_000,
        now_ms=node.clock.wall_ms(),
        done=results.extend,
    )

    async def codes() -> list[ErrorCode | None]:
        await until(lambda: bool(results))
        return [None if result.error is None else result.error.code for result in results]

    return codes()


def by_the_broker(node: ReplicaNode) -> Awaitable[list[ErrorCode | None]]:
    """Append as the broker itself does with markers of transactions."""
    writer = CommittedWriter(node.replicas, node.turn, node.clock)
    outcomes = writer.outcomes([writer.stage(place, BATCH) for place in PLACES], 30_000)

    async def codes() -> list[ErrorCode | None]:
        return [None if error is None else error.code for error in await outcomes]

    return codes()


@pytest.mark.parametrize("interruption", [another_leads, no_room])
@pytest.mark.parametrize(
    ("append", "code"),
    [
        (by_produce, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (by_the_broker, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ],
)
def test_what_an_interruption_took_is_not_acknowledged_by_what_came_in_its_place(
    append: Append, code: ErrorCode, interruption: Interruption
) -> None:
    """REQ-3: the high watermark says nothing of a record that is not in the log any more.

    It was looked at only when the slow partition was through: the partition was led here again by
    then, and its high watermark had passed the offset that the record had.
    """

    async def test() -> None:
        links = Links()
        links.cut_off(1)
        nodes = [await ReplicaNode(node_id, links).start() for node_id in (0, 1)]
        for node in nodes:
            slow = led_by(0, 0, replicas=(0, 2), isr=(0, 2), index=SLOW)
            await node.learn([*topic_records(), led_by(0, 0, isr=(0, 1)), slow])
        brokers = Brokers(*nodes)
        codes = append(brokers.leader)
        await interruption(brokers)
        await brokers.copy_slow()
        assert await codes == [code, None]
        for node in nodes:
            await node.stop()

    run_virtual(test())

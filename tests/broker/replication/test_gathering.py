"""Answers to followers gather what a busy loop brings, and wait for nothing on an idle one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas_broker.replication.leader.delayed_follower_fetch import GATHER_LOOKS_MAX
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import fetch
from barnabas_protocol.records.batch import iterate_headers
from tests.broker.replication.fetching_follower import Follower
from tests.support.replica_nodes import Links, ReplicaNode, led_by, soon, topic_records
from tests.support.virtual_loop import run_virtual

Answer = asyncio.Future[dict[int, fetch.PartitionData]]
Scenario = Callable[[ReplicaNode, Follower], Coroutine[Any, Any, None]]


def replicate(scenario: Scenario) -> None:
    """Run a scenario with a follower that has its session already; no time may pass in it."""

    async def run() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0, isr=(0, 1))])
        follower = Follower(node)
        await follower.fetch({0: 0}, wait_ms=0)
        await scenario(node, follower)
        assert node.clock.monotonic_ms() == 0
        await node.stop()

    run_virtual(run())


async def parked(follower: Follower) -> Answer:
    """A fetch that has come to the leader."""
    waiting = asyncio.ensure_future(follower.fetch())
    before = follower.session.parked
    await soon(lambda: follower.session.parked is not before)
    return waiting


async def batch_count(waiting: Answer) -> int:
    """How many batches a fetch is answered."""
    records = (await waiting)[0].records
    assert isinstance(records, memoryview)
    return len(list(iterate_headers(records)))


def test_an_idle_leader_answers_without_any_wait() -> None:
    """Who produces one record after the other must not wait for records that never come."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        assert await batch_count(await parked(follower)) == 1
        waiting = asyncio.ensure_future(follower.fetch({0: 1}))
        await soon(lambda: node.replicas.fetch_purgatory.pending_count == 1)
        node.produce(b"b")
        assert await batch_count(waiting) == 1

    replicate(test)


def test_what_comes_with_the_next_look_goes_along() -> None:
    """An answer costs as much as the records in it: one takes all that is about to come."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        waiting = await parked(follower)
        assert not waiting.done()
        node.produce(b"b")
        assert await batch_count(waiting) == 2

    replicate(test)


def test_a_parked_fetch_that_is_woken_gathers_as_well() -> None:
    """Whether the fetch or the records came first makes no difference."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        waiting = await parked(follower)
        node.produce(b"a")
        await asyncio.sleep(0)
        node.produce(b"b")
        assert await batch_count(waiting) == 2

    replicate(test)


def test_a_loop_that_always_brings_more_answers_after_a_few_looks() -> None:
    """A follower must not fall behind because there is much to send to it."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        waiting = await parked(follower)
        while not waiting.done():
            node.produce(b"v")
            await asyncio.sleep(0)
        assert 2 < await batch_count(waiting) <= GATHER_LOOKS_MAX + 1

    replicate(test)


def test_a_change_of_the_leader_is_told_while_records_gather() -> None:
    """REP-17: what has gathered was another leadership's; the follower hears of the new one."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        waiting = await parked(follower)
        await node.learn([led_by(1, 1, isr=(0, 1))])
        answer = (await waiting)[0]
        assert answer.error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        )
        assert not answer.records

    replicate(test)


def test_a_connection_that_ends_while_records_gather_leaves_nothing_behind() -> None:
    """The fetch is cancelled with it: nothing is read for it any more."""

    async def test(node: ReplicaNode, follower: Follower) -> None:
        node.produce(b"a")
        waiting = await parked(follower)
        fetching = follower.session.parked
        assert fetching is not None
        fetching.cancel()
        for _ in range(2 * GATHER_LOOKS_MAX):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert node.replicas.fetch_purgatory.pending_count == 0
        assert node.partition().bytes_to_followers == 0
        waiting.cancel()

    replicate(test)

"""Appends of the broker itself whose outcomes are awaited together."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas_broker.replication.committed_writer import CommittedWriter, Outcomes, StagedAppend
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.replication.led_partition import Leader, lead
from tests.support.replica_nodes import TP

BATCH = encode_batch([Record(0, 1_700_000_000_000, None, b"v")])


class Appends:
    """Two appends to a partition that two followers copy, and the wait for their outcomes."""

    def __init__(self, leader: Leader) -> None:
        node = leader.node
        self.leader = leader
        self.began = asyncio.get_running_loop().time()
        self.writer = CommittedWriter(node.replicas, node.turn, node.clock)
        self.staged: list[StagedAppend] = [self.writer.stage(TP, BATCH) for _ in range(2)]
        self.future: asyncio.Future[Outcomes] = self.writer.outcomes(self.staged, 5_000)
        node.turn.finish()

    async def codes(self) -> list[ErrorCode | None]:
        return [None if error is None else error.code for error in await self.future]

    @property
    def pending_count(self) -> int:
        return self.leader.node.replicas.produce_purgatory.pending_count


def run(scenario: Callable[[Appends], Awaitable[None]]) -> None:
    async def with_appends(leader: Leader) -> None:
        await scenario(Appends(leader))

    lead(with_appends)


@pytest.mark.parametrize("first", [1, 2])
def test_outcomes_are_there_once_the_last_append_is_committed(first: int) -> None:
    """REP-1: whichever follower is the last."""

    async def scenario(appends: Appends) -> None:
        appends.leader.fetched(first, 2)
        appends.leader.fetched(3 - first, 1)
        assert appends.leader.high_watermark == 1
        assert not appends.future.done()
        appends.leader.fetched(3 - first, 2)
        assert await appends.codes() == [None, None]
        assert appends.pending_count == 0

    run(scenario)


def test_append_that_takes_too_long_is_told_apart_from_those_that_are_committed() -> None:
    """TXN-6: what waits beside it must not be done again."""

    async def scenario(appends: Appends) -> None:
        for follower in (1, 2):
            appends.leader.fetched(follower, 1)
        assert await appends.codes() == [None, ErrorCode.REQUEST_TIMED_OUT]
        assert asyncio.get_running_loop().time() - appends.began == pytest.approx(5, abs=0.01)

    run(scenario)


def test_lost_leadership_is_an_outcome() -> None:
    """Another leader may commit the records, or cut them off: nobody here will know."""

    async def scenario(appends: Appends) -> None:
        await appends.leader.state(0, 1, 2, leader=1, leader_epoch=1)
        assert await appends.codes() == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2

    run(scenario)


def test_who_does_not_wait_any_more_leaves_nothing_behind() -> None:
    async def scenario(appends: Appends) -> None:
        assert appends.pending_count == 1
        appends.future.cancel()
        await asyncio.sleep(0)
        assert appends.pending_count == 0

    run(scenario)

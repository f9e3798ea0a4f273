"""Sessions of share groups: what their end gives back, and that there is an end to all of them."""

from __future__ import annotations

import asyncio

import pytest

from barnabas_broker.share import share_partitions
from barnabas_broker.share.persister import StateBatch
from barnabas_protocol.errors import ErrorCode
from tests.broker.share.share_bench import ShareBench, at, key, share
from tests.support.replica_nodes import until

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def test_the_end_of_a_session_releases_what_its_member_has() -> None:
    """SHR-20: in all of its partitions, and of nobody else."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a", (0, 1)), bench.member("b", (0, 1))
        bench.produce(1, index=0)
        bench.produce(1, index=1)
        while len(bench.broker.shares.loaded) < 2 or not all(
            one.is_active for one in bench.broker.shares.loaded.values()
        ):
            await member.acquire(records_max=0, max_wait_ms=1)
        assert await member.acquire() == [(0, 0, 1), (0, 0, 1)]
        bench.produce(1, index=0)
        assert await other.acquire() == [(1, 1, 1)]
        await bench.broker.shares.end_session(member.member)
        assert await other.acquire() == [(0, 0, 2), (0, 0, 2)]

    share(scenario, partitions=2)


def test_the_end_of_a_session_releases_what_an_earlier_one_acquired() -> None:
    """SHR-20: every lock of the member, also in partitions that its session does not name."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a", (0, 1)), bench.member("b", (1,))
        bench.produce(1, index=1)
        assert await member.acquire() == [(0, 0, 1)]
        session = bench.broker.shares.begin_session(member.member, member.connection, [at(0)])
        assert session is not None
        await bench.broker.shares.end_session(member.member)
        assert await other.acquire(max_wait_ms=500) == [(0, 0, 2)]

    share(scenario, partitions=2)


def test_a_session_that_begins_when_a_connection_is_lost_goes_on() -> None:
    """SHR-21: the connection takes along its own sessions only, and their locks."""

    async def scenario(bench: ShareBench) -> None:
        member, other = bench.member("a"), bench.member("b")
        bench.produce(1)
        await member.acquire()
        member.connection.close()
        again = bench.member("a")
        await asyncio.sleep(0.1)
        assert bench.broker.shares.is_open(again.session)
        assert await other.acquire() == [(0, 0, 2)]

    share(scenario)


def test_the_end_of_a_session_lets_others_go_on_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHR-20: also where all that is in flight is of other members."""

    async def scenario(bench: ShareBench) -> None:
        indexes = range(4)
        other, member = bench.member("b", indexes), bench.member("a", indexes)
        for index in indexes:
            bench.produce(1, index=index)
        acquired: list[tuple[int, int, int]] = []
        while len(acquired) < 4:
            acquired += await other.acquire()
        pauses = bench.pause_count
        await bench.broker.shares.end_session(member.member)
        assert bench.pause_count - pauses == 4

    monkeypatch.setattr(share_partitions, "RELEASE_WORK_MAX", 1)
    share(scenario, partitions=4)


def test_a_fetch_whose_member_goes_while_it_begins_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHR-14: nothing would end it but its time, which a client may set to weeks."""

    async def scenario(bench: ShareBench) -> None:
        bench.member("b")
        member = bench.member(partitions=range(3))
        fetch = asyncio.ensure_future(member.fetch(max_wait_ms=2**31 - 1))
        await asyncio.sleep(0)
        member.connection.close()
        assert not [one for one in await fetch if one.acquired]
        assert bench.node.clock.monotonic_ms() < 1_000
        assert not bench.broker.shares.purgatory.pending_count

    monkeypatch.setattr(share_partitions, "LOOKED_UP_AT_ONCE", 1)
    share(scenario, partitions=3)


def test_share_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """SHR-21: sessions forget partitions, and name others."""

    async def scenario(bench: ShareBench) -> None:
        assert await bench.member("a").acquire(max_wait_ms=1) == []
        refused = await bench.member("b", (1,)).error()
        assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await bench.member("c").acquire(max_wait_ms=1) == []

    monkeypatch.setattr(share_partitions, "SHARE_PARTITIONS_MAX", 1)
    share(scenario, partitions=2)


def test_acknowledgement_types_are_bounded() -> None:
    """SHR-15: a hole of the log in flight may have room for millions."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        await member.acquire(max_wait_ms=1)
        bench.broker.loaded().records.archive(1, 1_000_000)
        count = share_partitions.ACKNOWLEDGEMENT_TYPES_MAX
        refused = await member.acknowledge((1, count + 1, [0] * (count + 1)))
        assert refused == ErrorCode.INVALID_REQUEST
        assert await member.acknowledge((1, count, [0] * count)) == 0

    share(scenario)


def test_a_group_without_sessions_leaves_memory_when_all_is_written() -> None:
    """SHR-21."""

    async def scenario(bench: ShareBench) -> None:
        member = bench.member()
        bench.produce(1)
        await member.acquire()
        bench.persister.hold()
        member.connection.close()
        await asyncio.sleep(0.1)
        assert bench.broker.shares.loaded  # the release is being written
        bench.persister.release()
        await until(lambda: not bench.broker.shares.loaded)
        assert bench.persister.states[key()].batches == (StateBatch(0, 0, 0, 1),)
        assert await bench.member("b").acquire() == [(0, 0, 2)]

    share(scenario)


def test_a_connection_may_carry_many_sessions_and_lose_them_all() -> None:
    """SHR-21: one callback for each connection, however many members come and go."""

    async def scenario(bench: ShareBench) -> None:
        shares, member = bench.broker.shares, bench.member("a")
        for number in range(50):
            name = member.member._replace(member_id=f"x{number}")
            assert shares.begin_session(name, member.connection, ()) is not None
            if number % 10:
                await shares.end_session(name)
        assert len(member.connection.callbacks) == 1
        assert len(shares.sessions) == 6
        member.connection.close()
        await until(lambda: len(shares.sessions) == 0)

    share(scenario)


def test_switched_off_share_groups_leave_nothing_in_memory() -> None:
    """SHR-1: who waits is told."""

    async def scenario(bench: ShareBench) -> None:
        shares = bench.broker.shares
        fetch = asyncio.ensure_future(bench.member().error())
        await until(lambda: shares.purgatory.pending_count == 1 and bench.broker.loaded().is_active)
        shares.switched_off()
        assert await fetch == ErrorCode.UNSUPPORTED_VERSION
        assert (len(shares.loaded), len(shares.sessions)) == (0, 0)

    share(scenario)

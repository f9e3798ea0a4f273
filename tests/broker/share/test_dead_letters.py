"""Dead letters at the leader of a share partition: from the last attempt to the archive."""

from __future__ import annotations

import asyncio

from barnabas_broker.metrics.sample import Histogram
from barnabas_broker.share.dead_letters import DeadLetterCause, DeadLetters
from barnabas_broker.share.persister import StateBatch
from barnabas_protocol.errors import ErrorCode
from tests.broker.share.share_bench import ShareBench, key, share
from tests.support.replica_nodes import led_by, until

ACCEPT, RELEASE, REJECT = 1, 2, 3
REJECTED, DELIVERY_COUNT = DeadLetterCause.REJECTED, DeadLetterCause.DELIVERY_COUNT


def kept(bench: ShareBench) -> tuple[int, tuple[StateBatch, ...]]:
    """Start offset and batches as they are stored."""
    state = bench.persister.states[key()]
    return state.start_offset, state.batches


def test_a_rejection_is_answered_when_archiving_is_stored_and_archived_later() -> None:
    """SHR-36: the member does not wait for the topic; the start does."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True)
        bench.broker.dead_letters.hold()
        bench.produce(4)
        member = bench.member()
        await member.acquire()
        assert await member.acknowledge((0, 1, [REJECT]), (2, 3, [ACCEPT])) == 0
        assert kept(bench) == (0, (StateBatch(0, 1, 3, 1), StateBatch(2, 3, 2, 1)))
        await until(lambda: bool(bench.broker.dead_letters.begun))
        bench.broker.dead_letters.release()
        await until(lambda: kept(bench) == (4, ()))
        assert bench.broker.dead_letters.written == [DeadLetters(0, 1, 1, REJECTED)]

    share(scenario)


def test_nothing_is_a_dead_letter_before_archiving_is_stored() -> None:
    """SHR-36: what is not stored may be delivered again by the next leader."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True, delivery_count_limit=2)
        bench.produce(1)
        member = bench.member()
        for _ in range(2):
            assert await member.acquire()
            await asyncio.sleep(1.5)
        # Its lock has run out for the second time; the write is under way, and fails.
        bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        other = bench.member("m2")
        assert await other.acquire(max_wait_ms=100) == []
        await until(lambda: kept(bench) == (1, ()))
        assert bench.broker.dead_letters.written == [DeadLetters(0, 0, 2, DELIVERY_COUNT)]

    share(scenario)


def test_a_write_that_fails_again_and_again_is_tried_once_a_second() -> None:
    """SHR-36: as long as the record is nobody's."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True, delivery_count_limit=2)
        bench.produce(1)
        member = bench.member()
        for _ in range(2):
            assert await member.acquire()
            bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 20
            await asyncio.sleep(1.1)
        before = len(bench.persister.failures["write"])
        await asyncio.sleep(10)
        assert 8 <= before - len(bench.persister.failures["write"]) <= 11
        assert not bench.broker.dead_letters.begun
        bench.persister.failures["write"] = []
        await until(lambda: kept(bench) == (1, ()))
        assert bench.broker.dead_letters.written == [DeadLetters(0, 0, 2, DELIVERY_COUNT)]

    share(scenario)


def test_a_group_that_is_deleted_meanwhile_is_not_written_for_ever() -> None:
    """SHR-32, SHR-36: nothing is kept of it that could be Archiving."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True, delivery_count_limit=2)
        bench.produce(1)
        for name in ("m1", "m2"):
            member = bench.member(name)
            assert await member.acquire()
            bench.persister.failures["write"] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * (
                3 if name == "m2" else 0
            )
            member.connection.close()
            await asyncio.sleep(0.1)
        assert key() in bench.broker.shares.loaded
        await bench.persister.delete(key())
        await until(lambda: not bench.broker.shares.loaded)
        assert not bench.broker.dead_letters.begun

    share(scenario)


def test_the_next_leader_goes_on_with_dead_letters() -> None:
    """SHR-33, SHR-36: the leader before has archived nothing that is not in the topic."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True)
        bench.broker.dead_letters.hold()
        bench.produce(2)
        member = bench.member()
        await member.acquire()
        await member.acknowledge((0, 0, [REJECT]))
        await until(lambda: bool(bench.broker.dead_letters.begun))
        await bench.node.learn([led_by(0, 1, replicas=(0,))])
        bench.broker.dead_letters.release()
        assert await member.acquire() == [(1, 1, 1)]
        await until(lambda: kept(bench)[0] == 1)
        assert bench.broker.dead_letters.begun == [DeadLetters(0, 0, 1, REJECTED)] * 2
        assert bench.broker.dead_letters.written == [DeadLetters(0, 0, 1, REJECTED)]

    share(scenario)


def test_a_group_without_sessions_keeps_its_share_partition_until_dead_letters_are_written() -> (
    None
):
    """SHR-21, SHR-36: or nobody would write them before a member comes."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True)
        bench.broker.dead_letters.hold()
        bench.produce(1)
        member = bench.member()
        await member.acquire()
        await member.acknowledge((0, 0, [REJECT]))
        await bench.broker.shares.end_session(member.member)
        assert key() in bench.broker.shares.loaded
        bench.broker.dead_letters.release()
        await until(lambda: not bench.broker.shares.loaded)
        assert kept(bench) == (1, ())

    share(scenario)


def test_the_last_member_that_goes_leaves_dead_letters_to_be_written() -> None:
    """SHR-11, SHR-20, SHR-36: its session ends the last attempt."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True, delivery_count_limit=2)
        bench.produce(1)
        for name in ("m1", "m2"):
            member = bench.member(name)
            assert await member.acquire()
            member.connection.close()
            await until(lambda: not bench.broker.shares.loaded)
        assert bench.broker.dead_letters.written == [DeadLetters(0, 0, 2, DELIVERY_COUNT)]
        assert kept(bench) == (1, ())

    share(scenario)


def test_records_behind_dead_letters_are_delivered_up_to_the_window() -> None:
    """SHR-9, SHR-36: a topic that is slow holds the start, and so bounds what waits for it."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True, record_locks_max=4)
        bench.broker.dead_letters.hold()
        for _ in range(6):
            bench.produce(1)
        member = bench.member()
        assert await member.acquire() == [(0, 3, 1)]
        await member.acknowledge((0, 1, [REJECT]), (2, 3, [ACCEPT]))
        assert await member.acquire(max_wait_ms=100) == []
        bench.broker.dead_letters.release()
        assert await member.acquire() == [(4, 5, 1)]

    share(scenario)


def gauges(bench: ShareBench) -> dict[str, float]:
    """What is told of the only share partition, by the last words of the names."""
    found = {}
    for sample in (*bench.broker.shares.samples(), *bench.broker.metrics.samples()):
        if not isinstance(sample.value, Histogram):
            found[sample.name.removeprefix("barnabas_share_")] = sample.value
    return found


def test_a_share_partition_tells_what_is_left_and_what_holds_it() -> None:
    """MET-1: the backlog, the record in front, what was delivered again, dead letters that wait."""

    async def scenario(bench: ShareBench) -> None:
        bench.broker.change(has_dead_letters=True)
        bench.broker.dead_letters.hold()
        bench.produce(4)
        bench.produce(2)
        member = bench.member()
        await member.acquire(records_max=4, is_record_limit=True)
        await member.acknowledge((0, 0, [RELEASE]), (1, 1, [REJECT]), (2, 3, [ACCEPT]))
        told = gauges(bench)
        assert (told["backlog_records"], told["in_flight_records"]) == (4, 4)
        assert told["archiving_records"] == 1
        assert told["redelivered_records_total"] == 0
        await asyncio.sleep(0.5)
        assert 0.5 <= gauges(bench)["oldest_in_flight_seconds"] < 0.6
        assert await member.acquire(records_max=1, is_record_limit=True) == [(0, 0, 2)]
        assert gauges(bench)["redelivered_records_total"] == 1
        assert gauges(bench)["oldest_in_flight_seconds"] >= 0.5
        await member.acknowledge((0, 0, [ACCEPT]))
        told = gauges(bench)
        assert (told["backlog_records"], told["oldest_in_flight_seconds"]) == (3, 0)
        bench.broker.dead_letters.release()
        await until(lambda: gauges(bench)["backlog_records"] == 2)
        assert gauges(bench)["in_flight_records"] == 0

    share(scenario)

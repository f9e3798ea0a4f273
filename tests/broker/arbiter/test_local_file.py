"""The arbiter's file: swaps that exclude each other and survive crashes."""

import asyncio
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.arbiter.arbiter import (
    ArbiterError,
    ArbiterRecord,
    Leader,
    Member,
    Stored,
    SwapOutcome,
)
from barnabas_broker.arbiter.local_file import LocalFileArbiter, decode, encode
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import Buffer, RealDisk
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk

RECORD = ArbiterRecord("c", 1, Leader(0, "h", 1), (Member(0, bytes(16)),), 5)


def arbiter(disk: SimulatedDisk) -> LocalFileArbiter:
    return LocalFileArbiter(disk, SimulatedClock(), "data/arbiter.json", poll_interval_ms=1)


def make_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories("data")
    return disk


def test_one_of_two_swaps_of_the_same_token_wins() -> None:
    """Rule 1 of the control plane."""

    async def run() -> None:
        disk = make_disk()
        one, other = arbiter(disk), arbiter(disk)
        assert await one.read() == (None, 0)
        outcomes = await asyncio.gather(
            one.compare_and_swap(0, RECORD),
            other.compare_and_swap(0, RECORD._replace(leader=Leader(1, "h", 2))),
        )
        assert sorted(outcome.value for outcome in outcomes) == ["conflict", "stored"]
        assert (await other.read()).token == 1
        assert await other.compare_and_swap(1, RECORD) is SwapOutcome.STORED
        assert await one.read() == Stored(RECORD, 2)

    asyncio.run(run())


def test_what_was_stored_survives_a_crash() -> None:
    """Rule 1: the epoch must never go back."""

    async def run() -> None:
        disk = make_disk()
        assert await arbiter(disk).compare_and_swap(0, RECORD) is SwapOutcome.STORED
        disk.crash()
        assert await arbiter(disk).read() == Stored(RECORD, 1)

    asyncio.run(run())


def test_failing_disk_leaves_the_outcome_unknown_not_wrong() -> None:
    """Rule 7."""

    async def run() -> None:
        disk = make_disk()
        disk.fail("rename", "arbiter")
        assert await arbiter(disk).compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
        assert await arbiter(disk).read() == (None, 0)

    asyncio.run(run())


def test_what_is_read_back_after_a_failed_swap_survives_a_crash() -> None:
    """Rule 7: the new file may be there by name only, and would be counted as won."""

    async def run() -> None:
        disk = make_disk()
        client = arbiter(disk)
        disk.fail("sync_directory", "data")
        assert await client.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
        disk.fail("sync_directory", "data")
        with pytest.raises(ArbiterError):
            await client.read()
        assert await client.read() == Stored(RECORD, 1)
        disk.crash(keep_some=False)
        assert await client.read() == Stored(RECORD, 1)

    asyncio.run(run())


def test_a_cancelled_swap_keeps_the_lock_until_its_thread_has_written(tmp_path: Path) -> None:
    """Rule 1: another would read the old record, and one of two winners write over the other."""
    begun, may_write = threading.Event(), threading.Event()

    class SlowDisk(RealDisk):
        def write_atomically(self, path: str, data: Buffer) -> None:
            begun.set()
            assert may_write.wait(20)
            super().write_atomically(path, data)

    async def run() -> None:
        path = f"{tmp_path}/arbiter.json"
        disks = [SlowDisk(1), RealDisk(1), RealDisk(1)]
        slow, other, third = (LocalFileArbiter(disk, SystemClock(), path) for disk in disks)
        swap = asyncio.create_task(slow.compare_and_swap(0, RECORD))
        async with asyncio.timeout(20):
            while not begun.is_set():
                await asyncio.sleep(0)
        swap.cancel()
        others = RECORD._replace(leader=Leader(1, "h", 2))
        rival = asyncio.create_task(other.compare_and_swap(0, others))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not swap.done()
        may_write.set()
        with pytest.raises(asyncio.CancelledError):
            await swap
        assert await rival is SwapOutcome.CONFLICT
        assert await third.read() == Stored(RECORD, 1)
        for disk in disks:
            disk.close()

    asyncio.run(run())


def test_lock_that_stays_held_is_not_waited_for_for_ever() -> None:
    """A stuck process must not hang the start."""

    class RunningClock(SimulatedClock):
        def monotonic_ms(self) -> int:
            self.advance(1000)
            return super().monotonic_ms()

    async def run() -> None:
        disk = make_disk()
        lock = disk.lock("data/arbiter.json.lock")
        held = LocalFileArbiter(disk, RunningClock(), "data/arbiter.json")
        assert await held.compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
        lock.close()
        assert await held.compare_and_swap(0, RECORD) is SwapOutcome.STORED

    asyncio.run(run())


def test_watching_tells_the_present_and_each_change() -> None:
    """CTL-3, CTL-9: brokers watch this record alone."""

    async def run() -> None:
        disk = make_disk()
        watched = arbiter(disk).watch()
        assert await anext(watched) == (None, 0)
        await arbiter(disk).compare_and_swap(0, RECORD)
        assert await asyncio.wait_for(anext(watched), 10) == Stored(RECORD, 1)
        await watched.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def with_leader(leader: object) -> bytes:
    document = json.loads(encode(Stored(RECORD, 1)))
    return json.dumps({**document, "leader": leader}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b"null",
        encode(Stored(RECORD, 1)).replace(b'"version": 1', b'"version": 2'),
        with_leader({}),
        with_leader(""),
        with_leader(False),
        with_leader({"node_id": 0, "host": "h", "port": 1, "listeners": [["TLS", "h"]]}),
        with_leader({"node_id": 0, "host": "h", "port": 1, "listeners": None}),
    ],
)
def test_damaged_file_is_an_error_and_is_not_overwritten(data: bytes) -> None:
    """A record that cannot be read must not be taken for one that does not exist."""

    async def run() -> None:
        disk = make_disk()
        disk.write_atomically("data/arbiter.json", data)
        with pytest.raises(ArbiterError):
            await arbiter(disk).read()
        assert await arbiter(disk).compare_and_swap(0, RECORD) is SwapOutcome.UNKNOWN
        assert disk.read_bytes("data/arbiter.json") == data

    asyncio.run(run())


@given(
    st.builds(
        Stored,
        st.builds(
            ArbiterRecord,
            st.text(max_size=5),
            st.integers(0, 1 << 40),
            st.none()
            | st.builds(Leader, st.integers(0, 99), st.text(max_size=5), st.integers(0, 65535)),
            st.lists(
                st.builds(Member, st.integers(0, 9), st.binary(min_size=16, max_size=16)),
                max_size=3,
            ).map(tuple),
            st.integers(0, 1 << 50),
            st.lists(st.binary(min_size=16, max_size=16), max_size=3).map(tuple),
            st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 1 << 40)), max_size=3).map(tuple),
        ),
        st.integers(0, 1 << 40),
    )
)
def test_any_record_is_read_back_as_it_was_written(stored: Stored) -> None:
    """The format loses nothing."""
    assert decode(encode(stored)) == stored

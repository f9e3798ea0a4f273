"""What others may do to a file while a thread works on it: the arbiter's, and a broker's own."""

import asyncio

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Leader, SwapOutcome
from tests.simulation.cluster.bugs import planted
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.file_store import FileStore
from tests.simulation.cluster.invariants import InvariantError, TheArbitersRecordIsOne
from tests.simulation.cluster.node import DiskTraits, NodeClock, NodeDisk
from tests.support.process_loop import ProcessLoop
from tests.support.simulated_random import SimulatedRandom

MINUTE_MS = 60_000
THREADS = 4


def record(epoch: int, leader: int | None) -> ArbiterRecord:
    address = None if leader is None else Leader(leader, "host", 1)
    return ArbiterRecord("cluster", epoch, address, (), 0)


class Bench:
    """A store with a record of epoch 5, two clients, and what looks at the record."""

    def __init__(self) -> None:
        self.loop = ProcessLoop()
        clock = NodeClock(self.loop, 0)
        self.store = FileStore(SimulatedRandom(3), clock, lambda *what: None, 2)
        self.one, self.other = (self.store.client(clock, 100) for _ in range(2))
        self.invariant = TheArbitersRecordIsOne(self.store)

    async def begin(self) -> None:
        assert await self.one.compare_and_swap(0, record(5, 0)) is SwapOutcome.STORED
        self.look()

    def look(self) -> None:
        self.invariant.look([], [])

    async def resign_and_be_cancelled(self) -> "asyncio.Task[SwapOutcome]":
        """A swap whose thread has begun, on a disk that takes its time, and is not waited for."""
        disk = self.store._disk
        begun_count = disk.begun_count
        self.store.slow_down(MINUTE_MS)
        resigning = asyncio.create_task(self.one.compare_and_swap(1, record(5, None)))
        while disk.begun_count == begun_count:
            await asyncio.sleep(0.01)
        resigning.cancel()
        await asyncio.sleep(0)
        self.store.slow_down(0)
        return resigning


def test_a_cancelled_swap_keeps_its_lock_until_its_thread_has_ended() -> None:
    """Repro `file_arbiter_cancel.py`: nobody can swap in between."""
    bench = Bench()

    async def story() -> None:
        await bench.begin()
        resigning = await bench.resign_and_be_cancelled()
        outcome = await bench.other.compare_and_swap(1, record(6, 1))
        bench.look()
        await asyncio.wait([resigning])
        bench.look()
        assert outcome is not SwapOutcome.STORED
        assert bench.store.stored.record == record(5, None)

    bench.loop.run_until_complete(story())
    bench.loop.close()


def test_a_lock_of_the_loop_lets_two_win_and_is_seen() -> None:
    """As it was: what the second has stored is overwritten by the thread of the first."""
    bench = Bench()

    async def story() -> None:
        await bench.begin()
        await bench.resign_and_be_cancelled()
        assert await bench.other.compare_and_swap(1, record(6, 1)) is SwapOutcome.STORED
        bench.look()
        async with asyncio.timeout(2 * MINUTE_MS / 1000):
            while bench.store.stored.record == record(6, 1):
                await asyncio.sleep(1)
        bench.look()

    with planted("file_lock_of_the_loop"), pytest.raises(InvariantError, match="token 2"):
        bench.loop.run_until_complete(story())
    bench.loop.close()


def test_what_an_administrator_replaces_is_no_second_winner() -> None:
    bench = Bench()

    async def story() -> None:
        await bench.begin()
        bench.store.replace(None)
        bench.look()
        bench.store.replace(record(2, 1))
        bench.look()

    bench.loop.run_until_complete(story())
    bench.loop.close()


def test_two_threads_that_replace_one_file_at_once_are_seen() -> None:
    """One after the other may, as may two with a file each."""
    loop = ProcessLoop()
    disk = NodeDisk(SimulatedRandom(1), NodeClock(loop, 0), lambda *what: None)
    disk.make_directories("/data")
    seen: list[str] = []
    disk.on_overlap = seen.append

    async def story() -> None:
        await disk.run(disk.write_atomically, "/data/a", b"1")
        await disk.run(disk.write_atomically, "/data/a", b"2")
        await asyncio.gather(
            disk.run(disk.write_atomically, "/data/a", b"3"),
            disk.run(disk.write_atomically, "/data/b", b"3"),
        )
        assert not seen
        await asyncio.gather(
            *(disk.run(disk.write_atomically, "/data/a", b"4") for _ in range(THREADS))
        )
        assert set(seen) == {"/data/a"}

    loop.run_until_complete(story())
    loop.close()


def test_who_says_that_it_has_stopped_while_a_thread_goes_on_is_seen() -> None:
    """A broker that is told to stop while it starts waits for what its threads have begun."""

    def problems() -> list[str]:
        cluster = Cluster(5, 1)
        (node,) = cluster.nodes
        node.use_traits(DiskTraits(run_ms_max=MINUTE_MS))

        async def story() -> None:
            node.start()
            while not node.disk.work_of_threads:
                await asyncio.sleep(0.001)
            node.stop()
            await node.ended()

        cluster.run(story)
        return cluster.problems

    assert not problems()
    with planted("threads_abandoned"):
        (problem,) = problems()
    assert "threads go on" in problem

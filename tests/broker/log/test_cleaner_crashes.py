"""A power cut at each step of a compaction, and again while the broker starts."""

import asyncio
import contextlib

import pytest

from barnabas_protocol.records.control import ControlType
from tests.broker.log.cleaner_fixtures import (
    Bench,
    contents,
    mark,
    put,
    seal,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom


class PowerCutError(BaseException):
    """The machine is off from here on."""


class FragileDisk(SimulatedDisk):
    """Loses power before a chosen operation, counted from when it is armed."""

    remaining = -1
    is_off = False

    def _checked(self, operation, path):
        if self.is_off or self.remaining == 0:
            self.is_off = True
            raise PowerCutError
        if self.remaining > 0:
            self.remaining -= 1
        return super()._checked(operation, path)

    def crash(self, *, keep_some=True):
        self.is_off = False
        self.remaining = -1
        super().crash(keep_some=keep_some)


async def crashed_at(step, seed, again_at=None):
    """Compact until the power goes at `step`; returns whether compaction ended before.

    With `again_at` it goes once more at that step of the start that follows.
    """
    disk = FragileDisk(SimulatedRandom(seed))
    bench = Bench(disk)
    log = await bench.open()
    put(log, (b"a", b"0"), (b"b", b"1"))
    put(log, (b"a", b"2"), producer=(5, 0, 0), is_transactional=True)
    await seal(log)
    mark(log, 5, ControlType.ABORT)
    put(log, (b"b", None), (b"c", b"5"))
    await seal(log)
    put(log, (b"c", b"6"), (b"c", b"7"), producer=(5, 0, 1))
    await seal(log)
    put(log, (b"d", b"8"))
    await log.flush()
    await bench.manager.checkpointing.write_recovery_points(bench.manager.directories[0])
    before = contents(log)
    disk.remaining = step
    try:
        await bench.manager.cleaner.clean_once()
        is_done = True
    except PowerCutError:
        is_done = False
    if again_at is not None:
        await interrupted_start(bench, again_at)
    log = await bench.restart()
    after = contents(log)
    final = [(0, b"a", b"0"), (4, b"b", None), (7, b"c", b"7"), (8, b"d", b"8")]
    assert after in (before, final), (step, seed)
    aborted = log.aborted_transactions(0, 9)
    if after == before:
        assert aborted == [(5, 2)], (step, seed)
    assert log.log_end_offset == 9
    assert log.producer_state.producers[5].last_sequence == 2
    assert log.producer_state.first_unstable_offset() is None
    names = disk.list_directory(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    await bench.manager.cleaner.clean_once()
    assert contents(log) == final, (step, seed)
    return is_done


async def interrupted_start(bench, step):
    bench.disk.crash()
    bench.manager = bench.new_manager()
    bench.disk.remaining = step
    # The power goes in the middle of a task group, which wraps the error.
    with contextlib.suppress(PowerCutError, BaseExceptionGroup):
        await bench.open()


@pytest.mark.parametrize("seed", range(3))
def test_a_second_crash_while_starting_changes_nothing(seed):
    """REC-10: an unfinished swap is finished by whichever start gets so far."""

    async def main():
        random = SimulatedRandom(seed)
        for step in range(40, 90):
            await crashed_at(step, seed, again_at=random.integer(60))

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_step_leaves_the_old_segments_or_the_new(seed):
    """REC-10: power is cut before each single operation on the disk, in turn."""

    async def main():
        step = 0
        while not await crashed_at(step, seed):
            step += 1
        assert step > 60

    asyncio.run(main())

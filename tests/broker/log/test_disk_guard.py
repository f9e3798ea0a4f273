"""A full disk is a state: when it begins and ends, and what is told of it."""

import asyncio
import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_broker.log.ballast import ballast_bytes, is_out_of_space
from barnabas_broker.log.errors import LogDirectoryError
from barnabas_broker.log.manager.disk_guard import (
    LOOK_BYTES,
    REFUSED_WRITE_MS,
    DiskGuard,
)
from barnabas_broker.log.manager.disk_room import Reserve, Room, room_of
from barnabas_broker.log.manager.log_directory import LogDirectory
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_protocol.records.record import Record, encode_batch
from tests.broker.log.cleaner_fixtures import Bench
from tests.broker.log.manager_fixtures import manager_over, partition, run_with, topic_config
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.virtual_loop import run_virtual

MIB, GIB = 1 << 20, 1 << 30
DEFAULT = Reserve(percent=5, bytes_min=256 * MIB, bytes_max=10 * GIB)


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (100 * GIB, 5 * GIB),
        (1024 * GIB, 10 * GIB),  # at most
        (4 * GIB, 256 * MIB),  # at least
        (GIB, GIB // 10),  # but never more than a tenth
        (0, 0),
    ],
)
def test_reserve_is_a_share_within_bounds_and_at_most_a_tenth(total: int, reserve: int) -> None:
    """VOL-4: a volume of 1 GiB must stay usable."""
    assert DEFAULT.of(total) == reserve


def test_a_maximum_of_zero_turns_the_guard_off() -> None:
    reserve = Reserve(percent=5, bytes_min=256 * MIB, bytes_max=0).of(100 * GIB)
    assert room_of(0, reserve, Room.ENOUGH) is Room.ENOUGH


@pytest.mark.parametrize(
    ("free", "before", "room"),
    [
        (200, Room.ENOUGH, Room.ENOUGH),
        (199, Room.ENOUGH, Room.LOW),
        (249, Room.LOW, Room.LOW),
        (250, Room.LOW, Room.ENOUGH),
        (99, Room.LOW, Room.FULL),
        (124, Room.FULL, Room.FULL),
        (125, Room.FULL, Room.LOW),
        (49, Room.FULL, Room.CRITICAL),
        (62, Room.CRITICAL, Room.FULL),
        (61, Room.CRITICAL, Room.CRITICAL),
        (0, Room.ENOUGH, Room.CRITICAL),
        (1000, Room.CRITICAL, Room.ENOUGH),
    ],
)
def test_states_begin_below_a_bound_and_end_above_it(free: int, before: Room, room: Room) -> None:
    """VOL-4: below 2 R, R and R / 2; left at 1.25 times that."""
    assert room_of(free, 100, before) is room


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from(Room))
def test_more_room_is_never_a_worse_state_and_a_state_is_stable(
    free: int, more: int, before: Room
) -> None:
    room = room_of(free, 100, before)
    assert room_of(free + more, 100, before) <= room
    assert room_of(free, 100, room) is room


def test_only_a_lack_of_room_counts_as_one() -> None:
    assert is_out_of_space(OSError(errno.ENOSPC, "full"))
    assert is_out_of_space(LogDirectoryError("/data", OSError(errno.EDQUOT, "quota")))
    assert not is_out_of_space(OSError(errno.EIO, "bad"))
    assert not is_out_of_space(None)


def guarded(disk: SimulatedDisk, clock: SimulatedClock) -> tuple[DiskGuard, LogDirectory]:
    disk.make_directories("/data")
    directory = LogDirectory(disk, "/data")
    directory.directory_id = b"d" * 16
    return DiskGuard(disk, clock, DEFAULT, [directory]), directory


def test_a_look_tells_each_change_once(caplog: pytest.LogCaptureFixture) -> None:
    """VOL-5: the log, the id for the controller, and what a producer reads."""
    clock = SimulatedClock()
    disk = SimulatedDisk(clock=clock, capacity_bytes=GIB)
    guard, directory = guarded(disk, clock)
    told: list[tuple[Room, Room]] = []
    guard.on_change.append(lambda one, before: told.append((before, guard.room(one))))
    reserve = GIB // 10

    async def run() -> None:
        await guard.look()
        assert guard.cordoned == []
        assert not guard.is_any_full
        file = disk.open("/data/x", create=True)
        file.truncate(GIB - ballast_bytes(reserve) - reserve + 1)
        await guard.look()
        await guard.look()
        assert guard.cordoned == [b"d" * 16]
        assert guard.is_any_full
        assert f"/data has {reserve - 1} bytes free of {GIB}" in guard.why_full(directory)
        file.truncate(0)
        await guard.look()
        assert not guard.is_any_full

    asyncio.run(run())
    assert told == [(Room.ENOUGH, Room.FULL), (Room.FULL, Room.ENOUGH)]
    assert caplog.text.count("disk guard") == 1  # the second is no warning


def test_a_write_that_finds_no_room_counts_for_a_while_whatever_the_file_system_says() -> None:
    """A quota does not show in statvfs."""
    clock = SimulatedClock()
    guard, directory = guarded(SimulatedDisk(clock=clock), clock)

    async def run() -> None:
        guard.write_refused(directory)
        assert guard.room(directory) is Room.CRITICAL
        await guard.look()
        assert guard.is_any_full
        clock.advance(REFUSED_WRITE_MS)
        await guard.look()
        assert guard.room(directory) is Room.ENOUGH

    asyncio.run(run())


def test_a_start_on_a_full_disk_waits_for_room(caplog: pytest.LogCaptureFixture) -> None:
    """VOL-4: without the ballast not even a registration could be written."""

    async def test() -> None:
        clock = SimulatedClock()
        disk = SimulatedDisk(clock=clock, capacity_bytes=GIB)
        guard, _ = guarded(disk, clock)
        disk.open("/data/filler", create=True).truncate(GIB - 1000)
        starting = asyncio.create_task(guard.until_there_is_room())
        await asyncio.sleep(60)
        assert not starting.done()
        assert len(caplog.records) == 1
        assert "has 1000 bytes free: the start waits" in caplog.text
        disk.remove("/data/filler")
        await asyncio.wait_for(starting, 2)

    run_virtual(test())


def test_a_start_with_a_ballast_needs_no_room() -> None:
    async def test() -> None:
        clock = SimulatedClock()
        disk = SimulatedDisk(clock=clock, capacity_bytes=MIB // 2)
        guard, directory = guarded(disk, clock)
        directory.ballast.is_held = True
        await asyncio.wait_for(guard.until_there_is_room(), 1)

    run_virtual(test())


def test_a_disk_that_does_not_answer_keeps_its_state() -> None:
    clock = SimulatedClock()
    disk = SimulatedDisk(clock=clock)
    guard, directory = guarded(disk, clock)
    disk.fail("free_bytes", "/data")
    asyncio.run(guard.look())
    assert guard.room(directory) is Room.ENOUGH


def test_the_guard_looks_again_after_32_mib_and_retention_runs_at_once() -> None:
    """VOL-4: not only every second; a disk takes more than the reserve in that time."""

    async def main() -> None:
        bench = Bench(SimulatedDisk(capacity_bytes=GIB), log_retention_check_interval_ms="3600000")
        log = await bench.open(
            topic_config(cleanup_policy="delete", retention_bytes="1", segment_bytes=str(MIB))
        )
        for _ in range(6):
            batch = encode_batch([Record(0, 1, b"k", bytes(600_000))])
            log.append_as_leader(bytearray(batch), 0, now_ms=1)
            log.write_staged()
        log.advance_high_watermark(log.log_end_offset)
        bench.manager.start_tasks()
        await asyncio.sleep(0.5)
        bench.disk.open("/data/filler", create=True).truncate(GIB - GIB // 20)
        bench.manager.tail_cache.count(LOOK_BYTES)
        await asyncio.sleep(0.1)  # of virtual time: before the next look by time
        assert bench.manager.disk_guard.is_any_full
        assert log.log_start_offset == log.log_end_offset == 6
        await bench.manager.close()

    run_virtual(main())


def test_new_logs_go_to_the_directory_that_has_room(tmp_path: Path) -> None:
    """VOL-4: with several directories, one that fills up gets no replica."""
    manager = manager_over(tmp_path / "a", tmp_path / "b")

    async def work(manager: LogManager) -> None:
        roomy, low = manager.directories
        manager.disk_guard.of(low).room = Room.LOW
        for number in range(3):
            manager.create(partition("t", number), bytes(15) + b"t", topic_config())
        assert (len(roomy.logs), len(low.logs)) == (3, 0)

    run_with(manager, work)


class WatchedDisk(SimulatedDisk):
    """Notes which files are removed, and whether in a thread."""

    def __init__(self) -> None:
        super().__init__(capacity_bytes=GIB)
        self.removed: list[tuple[str, bool]] = []

    def remove(self, path: str) -> None:
        self.removed.append((path, self.is_in_thread))
        super().remove(path)


def test_old_segments_are_unlinked_in_a_thread() -> None:
    """A large file takes a file system some time, and the loop waits for no device."""

    async def main() -> None:
        disk = WatchedDisk()
        bench = Bench(disk)
        log = await bench.open(
            topic_config(
                cleanup_policy="delete",
                retention_bytes="1",
                segment_bytes=str(MIB),
                file_delete_delay_ms="0",
            )
        )
        for _ in range(6):
            batch = encode_batch([Record(0, 1, b"k", bytes(600_000))])
            log.append_as_leader(bytearray(batch), 0, now_ms=1)
            log.write_staged()
        log.advance_high_watermark(log.log_end_offset)
        count = await log.delete_old_segments(2)
        assert count >= 5
        await asyncio.sleep(1)  # of virtual time
        unlinked = [is_in_thread for path, is_in_thread in disk.removed if ".log.deleted" in path]
        assert unlinked == [True] * count
        assert log.local.removal.waiting() == []
        await bench.manager.close()

    run_virtual(main())

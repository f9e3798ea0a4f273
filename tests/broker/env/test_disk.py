"""The contract of disks, on the operating system's files and on the simulated ones."""

import asyncio
import contextlib
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas_broker.env import disk as disk_module
from barnabas_broker.env.disk import UNZEROED_BYTES_MIN, Disk, RealDisk
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    """A disk and an empty folder on it."""
    disk: Disk = RealDisk(2) if request.param == "real" else SimulatedDisk()
    root = str(tmp_path) if request.param == "real" else "/data"
    disk.make_directories(root)
    yield disk, root
    disk.close()


def test_appends_continue_where_the_file_ends(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(root + "/log", create=True)
    assert file.append([b"abc", memoryview(b"def"), bytearray(b"g")]) == 7
    assert file.append([b"h"]) == 1
    assert file.size() == 8
    file.close()
    again = disk.open(root + "/log")
    again.append([b"i"])
    assert again.read(100, 0) == b"abcdefghi"
    again.close()


def test_more_buffers_than_one_call_takes_are_all_written(place: tuple[Disk, str]) -> None:
    """writev(2) takes at most IOV_MAX parts."""
    disk, root = place
    file = disk.open(root + "/log", create=True)
    parts = [str(n).encode() for n in range(3_000)]
    assert file.append(parts) == len(b"".join(parts))
    assert file.read(100_000, 0) == b"".join(parts)
    file.close()


def test_reads_are_short_only_at_the_end(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(root + "/log", create=True)
    file.append([b"0123456789"])
    assert file.read(4, 3) == b"3456"
    assert file.read(4, 8) == b"89"
    assert file.read(4, 10) == b""
    for size, position, expected in ((4, 3, b"3456"), (4, 8, b"89"), (4, 20, b"")):
        found = file.read_nowait(size, position)
        assert found is None or bytes(found) == expected
    file.close()


@pytest.mark.parametrize("size", [UNZEROED_BYTES_MIN - 1, UNZEROED_BYTES_MIN, 1_000_000])
def test_large_reads_from_memory_hold_the_file_and_nothing_else(tmp_path: Path, size: int) -> None:
    """Their memory is not zeroed first: behind the end of the file nothing of it may be seen."""
    with contextlib.closing(RealDisk(1)) as disk:
        file = disk.open(str(tmp_path / "log"), create=True)
        content = os.urandom(size - 10)
        file.append([content])
        for position in (0, 5, size - 10, size):
            found = file.read_nowait(size, position)
            assert found is None or found == content[position:]
        file.close()


def test_overwriting_and_truncating(place: tuple[Disk, str]) -> None:
    """After a truncation, appends continue at the new end."""
    disk, root = place
    file = disk.open(root + "/log", create=True)
    file.append([b"0123456789"])
    file.write_at(b"xy", 4)
    file.write_at(b"end", 9)
    assert file.read(20, 0) == b"0123xy678end"
    file.truncate(3)
    file.append([b"!"])
    file.sync()
    assert file.read(20, 0) == b"012!"
    file.truncate(6)
    assert file.read(20, 0) == b"012!\0\0"
    file.close()
    file.close()


def test_missing_files_and_read_only_files_are_refused(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(FileNotFoundError):
        disk.open(root + "/none")
    with pytest.raises(FileNotFoundError):
        disk.read_bytes(root + "/none")
    with pytest.raises(FileNotFoundError):
        disk.remove(root + "/none")
    with pytest.raises(FileNotFoundError):
        disk.list_directory(root + "/none")
    disk.open(root + "/log", create=True).close()
    file = disk.open(root + "/log", read_only=True)
    with pytest.raises(OSError, match=r".+") as caught:
        file.append([b"x"])
    assert caught.value.errno == errno.EBADF
    file.close()


def test_make_directory(place: tuple[Disk, str]) -> None:
    """One call tells whether the folder is new; nothing above it is made."""
    disk, root = place
    assert disk.make_directory(root + "/a")
    assert not disk.make_directory(root + "/a")
    assert disk.is_directory(root + "/a")
    with pytest.raises(FileNotFoundError):
        disk.make_directory(root + "/b/c")
    disk.open(root + "/file", create=True).close()
    with pytest.raises(FileExistsError):
        disk.make_directory(root + "/file")


def test_names(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.make_directories(root + "/b/c")
    disk.make_directories(root + "/b/c")
    disk.write_atomically(root + "/b/c/file", b"content")
    disk.write_atomically(root + "/a", b"first")
    disk.write_atomically(root + "/a", memoryview(b"second"))
    assert disk.list_directory(root) == ["a", "b"]
    assert disk.list_directory(root + "/b/c") == ["file"]
    assert disk.is_directory(root + "/b")
    assert not disk.is_directory(root + "/a")
    assert disk.read_bytes(root + "/a") == b"second"
    assert disk.size(root + "/a") == 6
    disk.rename(root + "/b", root + "/d")
    disk.sync_directory(root)
    assert disk.read_bytes(root + "/d/c/file") == b"content"
    assert not disk.exists(root + "/b/c/file")
    disk.rename(root + "/a", root + "/d/c/file")
    assert disk.read_bytes(root + "/d/c/file") == b"second"
    disk.remove_tree(root + "/d")
    disk.remove_tree(root + "/d")
    assert disk.list_directory(root) == []


def test_an_open_file_outlives_its_name(place: tuple[Disk, str]) -> None:
    """A segment is renamed for deletion while consumers still read it."""
    disk, root = place
    file = disk.open(root + "/log", create=True)
    file.append([b"abc"])
    disk.rename(root + "/log", root + "/log.deleted")
    file.append([b"d"])
    assert disk.read_bytes(root + "/log.deleted") == b"abcd"
    disk.remove(root + "/log.deleted")
    assert file.read(10, 0) == b"abcd"
    file.close()


def test_modification_times_can_be_set(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.write_atomically(root + "/log", b"x")
    assert disk.modified_ms(root + "/log") > 1_600_000_000_000
    disk.set_modified_ms(root + "/log", 1_500_000_000_123)
    assert disk.modified_ms(root + "/log") == 1_500_000_000_123


def test_a_lock_is_exclusive_until_it_is_closed(place: tuple[Disk, str]) -> None:
    """NODE: two brokers on one log directory would destroy it."""
    disk, root = place
    lock = disk.lock(root + "/.lock")
    with pytest.raises(BlockingIOError):
        disk.lock(root + "/.lock")
    lock.close()
    lock.close()
    disk.lock(root + "/.lock").close()


def test_functions_run_and_their_errors_come_back(place: tuple[Disk, str]) -> None:
    disk, root = place

    async def work() -> int:
        with pytest.raises(FileNotFoundError):
            await disk.run(disk.size, root + "/none")
        await disk.run(disk.write_atomically, root + "/file", b"1234")
        return await disk.run(disk.size, root + "/file")

    assert asyncio.run(work()) == 4
    assert disk.free_bytes(root) > 0


def test_the_real_disk_leaves_the_loop_s_thread(tmp_path: Path) -> None:
    """An fsync on the loop would stop every connection."""
    disk = RealDisk(1)
    try:
        assert asyncio.run(disk.run(threading.get_ident)) != threading.get_ident()
    finally:
        disk.close()


class Gate:
    """Work in a thread that goes on when it is let; the simulated disk's needs no letting."""

    def __init__(self, disk: Disk) -> None:
        self.begun = threading.Event()
        self._may_end = threading.Event()
        self.has_ended = False
        if isinstance(disk, SimulatedDisk):
            self.begun.set()
            self._may_end.set()

    def work(self) -> None:
        self.begun.set()
        assert self._may_end.wait(20)
        self.has_ended = True

    def let_end(self) -> None:
        self._may_end.set()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def test_a_cancelled_caller_goes_on_only_when_the_work_has_ended(place: tuple[Disk, str]) -> None:
    """It would let go of its lock while the thread still writes, as the arbiter's file once did."""
    disk, _ = place

    async def run() -> None:
        gate = Gate(disk)
        task = asyncio.create_task(disk.run(gate.work))
        await asyncio.sleep(0)
        await _until(gate.begun.is_set)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done() or gate.has_ended
        gate.let_end()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.has_ended

    asyncio.run(run())


def test_a_timeout_over_disk_work_is_a_timeout_when_it_has_ended(place: tuple[Disk, str]) -> None:
    """Two nested ones that are both over among them."""
    disk, _ = place

    async def run() -> None:
        gate = Gate(disk)
        asyncio.get_running_loop().call_later(0.02, gate.let_end)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                async with asyncio.timeout(0), asyncio.timeout(0):
                    await disk.run(gate.work)
        assert gate.has_ended
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(run())


def test_the_failure_of_work_that_was_cancelled_is_told(
    place: tuple[Disk, str], caplog: pytest.LogCaptureFixture
) -> None:
    """No silent drop; and the cancellation is not swallowed by it."""
    disk, root = place

    async def run() -> None:
        gate = Gate(disk)

        def failing() -> None:
            gate.work()
            disk.size(root + "/none")

        task = asyncio.create_task(disk.run(failing))
        await asyncio.sleep(0)
        await _until(gate.begun.is_set)
        task.cancel()
        gate.let_end()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert "nobody waits for it: FileNotFoundError" in caplog.text


def test_work_that_no_thread_has_begun_is_taken_back(tmp_path: Path) -> None:
    """A stop does not wait for what stands in line behind a slow device."""

    async def run() -> None:
        disk = RealDisk(1)
        first, second = Gate(disk), Gate(disk)
        running = asyncio.create_task(disk.run(first.work))
        await _until(first.begun.is_set)
        waiting = asyncio.create_task(disk.run(second.work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        first.let_end()
        await running
        disk.close()
        assert not second.begun.is_set()

    asyncio.run(run())


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a part of a writev, between or inside of buffers."""
    real = os.pwritev

    def stingy(descriptor: int, buffers: list[bytes], position: int) -> int:
        data = b"".join(buffers)[:5]
        return real(descriptor, [data], position)

    monkeypatch.setattr(disk_module.os, "pwritev", stingy)
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    assert file.append([b"abc", b"", b"defghij", b"k" * 9]) == 19
    assert file.append([b"!"]) == 1
    assert file.read(100, 0) == b"abcdefghijkkkkkkkkk!"
    file.close()


def test_reading_without_waiting_gives_none_where_memory_has_it_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a part is in memory, and where the file system does not know the flag."""
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.append([b"0123456789"])
    for code in (errno.EAGAIN, errno.EOPNOTSUPP):
        counts = [4]

        def cold(
            descriptor: int,
            buffers: list[memoryview],
            position: int,
            flags: int,
            counts: list[int] = counts,
            code: int = code,
        ) -> int:
            if counts:
                return counts.pop()
            raise OSError(code, "cold")

        monkeypatch.setattr(disk_module.os, "preadv", cold)
        assert file.read_nowait(10, 0) is None
    file.close()


# What only the simulated disk can do.


def test_a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() -> None:
    """Recovery is tested against every way in which a tail can be torn."""
    lengths = set()
    for seed in range(200):
        disk = SimulatedDisk(SimulatedRandom(seed))
        disk.make_directories("/data")
        file = disk.open("/data/log", create=True)
        disk.sync_directory("/data")
        file.append([b"safe"])
        file.sync()
        file.append([b"12345"])
        file.append([b"67890"])
        disk.crash()
        with pytest.raises(OSError, match="closed"):
            file.read(1, 0)
        found = disk.read_bytes("/data/log")
        assert b"safe1234567890".startswith(found.rstrip(b"\0")), seed
        assert found.startswith(b"safe"), seed
        lengths.add(len(found))
    assert lengths == set(range(4, 15))


def test_a_file_without_a_synced_folder_may_be_gone() -> None:
    """The classic mistake: fsync of a new file, but not of the folder that names it."""
    disk = SimulatedDisk()
    disk.make_directories("/data")
    file = disk.open("/data/log", create=True)
    file.append([b"x"])
    file.sync()
    disk.write_atomically("/data/checkpoint", b"old")
    disk.rename("/data/checkpoint", "/data/other")
    disk.crash(keep_some=False)
    assert disk.list_directory("/data") == ["checkpoint", "log"]
    disk.open("/data/second", create=True).sync()
    disk.crash(keep_some=False)
    assert not disk.exists("/data/second")


def test_an_atomic_write_is_old_or_new_after_any_crash() -> None:
    for seed in range(50):
        disk = SimulatedDisk(SimulatedRandom(seed))
        disk.make_directories("/data")
        disk.write_atomically("/data/file", b"old")
        disk.fail(("sync", "rename", "sync_directory")[seed % 3])
        with pytest.raises(OSError, match="simulated"):
            disk.write_atomically("/data/file", b"new")
        disk.crash()
        assert disk.read_bytes("/data/file") in (b"old", b"new"), seed


def test_a_full_disk_takes_a_part_and_fails() -> None:
    disk = SimulatedDisk(capacity_bytes=6)
    disk.make_directories("/data")
    file = disk.open("/data/log", create=True)
    file.append([b"1234"])
    with pytest.raises(OSError, match="full") as caught:
        file.append([b"5678"])
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 6
    assert disk.free_bytes("/data") == 0
    file.truncate(4)
    assert disk.free_bytes("/data") == 2


def test_a_crash_releases_locks() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/data")
    disk.lock("/data/.lock")
    disk.crash()
    disk.lock("/data/.lock").close()


HOLD_LOCK = (
    "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB);"
    "print('held', flush=True); sys.stdin.read()"
)
HOLD_LOCK_JAVA = """
import java.io.RandomAccessFile;

public class Hold {
    public static void main(String[] arguments) throws Exception {
        var file = new RandomAccessFile(arguments[0], "rw");
        var lock = file.getChannel().tryLock();
        System.out.println(lock == null ? "refused" : "held");
        System.in.read();
    }
}
"""


def holders(tmp_path: Path) -> Iterator[list[str]]:
    """Programs that lock a file as a JVM does, a JVM itself among them where there is one."""
    yield [sys.executable, "-c", HOLD_LOCK]
    java = shutil.which("java")
    if java is not None:
        source = tmp_path / "Hold.java"
        source.write_text(HOLD_LOCK_JAVA)
        yield [java, str(source)]


def test_a_lock_of_apache_kafka_is_seen_and_ours_is_seen_by_it(tmp_path: Path) -> None:
    """Java's FileChannel locks by fcntl(2), which does not see flock(2)."""
    path = tmp_path / ".lock"
    disk = RealDisk()
    for program in holders(tmp_path):

        def start(program: list[str] = program) -> subprocess.Popen[str]:
            pipe = subprocess.PIPE
            return subprocess.Popen(
                [*program, str(path)], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
            )

        with start() as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(BlockingIOError):
                disk.lock(str(path))
            holder.communicate("")
        lock = disk.lock(str(path))
        path.read_bytes()  # closing another descriptor of the file must not let the lock go
        with pytest.raises(BlockingIOError):
            disk.lock(str(path))
        with start() as rival:
            answer, _ = rival.communicate("\n")
            assert "held" not in answer
        lock.close()
    disk.close()

"""Room that is given up for the broker's own writes, and for nothing else."""

import errno
import os
from pathlib import Path

import pytest

from barnabas_broker.env.disk import RealDisk
from barnabas_broker.log.ballast import BALLAST_FILE, Ballast, NeededDisk, ballast_bytes
from tests.support.simulated_disk import SimulatedDisk

MIB = 1024 * 1024


def full_disk(held: int = MIB) -> tuple[SimulatedDisk, Ballast]:
    disk = SimulatedDisk(capacity_bytes=2 * MIB)
    disk.make_directories("/data")
    ballast = Ballast(disk, "/data")
    if held:
        ballast.make(held)
    disk.open("/data/filler", create=True).allocate(disk.free_bytes("/data"))
    return disk, ballast


def test_the_ballast_really_occupies_room(tmp_path: Path) -> None:
    """A sparse file would hold nothing."""
    disk = RealDisk()
    ballast = Ballast(disk, str(tmp_path))
    ballast.make(MIB)
    assert os.stat(tmp_path / BALLAST_FILE).st_blocks * 512 >= MIB
    other = Ballast(disk, str(tmp_path))
    assert other.find()
    other.give_up()
    assert not (tmp_path / BALLAST_FILE).exists()
    disk.close()


@pytest.mark.parametrize("operation", ["append", "write_at", "atomic", "folder", "allocate"])
def test_what_is_needed_is_written_in_its_room(operation: str) -> None:
    """VOL-4: each kind of write, once the disk takes nothing more."""
    disk, ballast = full_disk()
    needed = NeededDisk(disk, ballast)
    file = needed.open("/data/log", create=True)
    if operation == "append":
        assert file.append([b"abc"]) == 3
    elif operation == "write_at":
        file.write_at(b"abc", 0)
    elif operation == "allocate":
        file.allocate(10)
    elif operation == "atomic":
        needed.write_atomically("/data/log", b"abc")
    else:
        needed.open_directory("/data").write_atomically("log", b"abc")
    if operation != "allocate":
        assert disk.read_bytes("/data/log") == b"abc"
    assert (ballast.given_up_count, ballast.is_held) == (1, False)


def test_others_get_nothing_of_it() -> None:
    disk, ballast = full_disk()
    file = disk.open("/data/log", create=True)
    with pytest.raises(OSError, match="full"):
        file.append([b"abc"])
    assert ballast.is_held


def test_without_a_ballast_the_write_fails() -> None:
    disk, ballast = full_disk(held=0)
    with pytest.raises(OSError, match="full") as failed:
        NeededDisk(disk, ballast).open("/data/log", create=True).append([b"abc"])
    assert failed.value.errno == errno.ENOSPC


def test_another_failure_costs_no_ballast() -> None:
    disk, ballast = full_disk()
    file = NeededDisk(disk, ballast).open("/data/log", create=True)
    disk.fail("append", "/data/log")
    with pytest.raises(OSError, match="simulated failure"):
        file.append([b"abc"])
    assert ballast.is_held


def test_a_ballast_that_finds_no_room_leaves_nothing() -> None:
    disk, ballast = full_disk(held=0)
    with pytest.raises(OSError, match="full"):
        ballast.make(MIB)
    assert not disk.exists(ballast.path)
    assert not ballast.is_held


def test_its_size_is_bounded_by_the_reserve() -> None:
    assert ballast_bytes(100 * MIB) == 25 * MIB
    assert ballast_bytes(10 << 30) == 64 * MIB
    assert ballast_bytes(0) == 0

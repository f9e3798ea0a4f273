"""What a start finds out about the last run: whether anything written may be lost (REG-8)."""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas_broker.env.disk import DiskFile, RealDisk
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.log.manager.strays import list_strays, unsettled_strays
from barnabas_broker.log.properties_files import BOOT_FILE, BootMarker
from tests.broker.log.manager_fixtures import (
    TOPIC_ID,
    Result,
    append,
    crash,
    manager_over,
    partition,
    run_with,
    topic_config,
)
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

EPOCH = 41
LOG_FILE = "00000000000000000000.log"


class Machine(RealDisk):
    """The disk of a process, in some boot of its machine."""

    def __init__(self, boot: str = "first") -> None:
        super().__init__()
        self._boot = boot

    def boot_id(self) -> str:
        return self._boot


async def write(manager: LogManager) -> None:
    """Four batches on the disk, and a recovery point behind them."""
    await manager.note_broker_epoch(EPOCH)
    log = manager.create(partition("t"), TOPIC_ID, topic_config())
    for _ in range(4):
        append(log, (b"k", b"v"))
    await log.flush()
    await manager.checkpointing.write_recovery_points(manager.directories[0])


async def kept(manager: LogManager) -> list[int]:
    return [directory.kept_broker_epoch for directory in manager.directories]


def life(
    work: Callable[[LogManager], Awaitable[Result]], *directories: Path, boot: str = "first"
) -> Result:
    """A process that does something and is killed."""
    return run_with(manager_over(*directories, disk=Machine(boot)), work, is_clean_stop=False)


def test_a_killed_process_has_kept_what_it_wrote_until_the_machine_goes_down(
    tmp_path: Path,
) -> None:
    """REG-8: the page cache outlives the process, not the kernel."""
    assert life(kept, tmp_path) == [-1]
    life(write, tmp_path)
    assert life(kept, tmp_path) == [EPOCH]
    assert life(kept, tmp_path, boot="second") == [-1]
    life(write, tmp_path, boot="")  # a system without boot ids
    assert life(kept, tmp_path, boot="") == [-1]


def test_a_clean_stop_outlives_the_machine(tmp_path: Path) -> None:
    """REC-4: everything is on the disk."""
    run_with(manager_over(tmp_path, disk=Machine()), write)  # stops as the broker of epoch 7
    assert life(kept, tmp_path, boot="second") == [7]


def test_a_directory_that_failed_has_kept_nothing(tmp_path: Path) -> None:
    """LOG-11: after an error the page cache need not have what was written, in the same boot."""

    async def fail(manager: LogManager) -> None:
        await write(manager)
        manager.take_offline(str(tmp_path), OSError(errno.EIO, "fsync"))

    async def is_believed(manager: LogManager) -> bool:
        return not manager.directories[0].was_machine_down

    life(fail, tmp_path)
    assert life(kept, tmp_path) == [-1]
    assert life(is_believed, tmp_path)
    assert not life(is_believed, tmp_path, boot="second"), "for the page cache that is enough"
    (tmp_path / BOOT_FILE).write_bytes(b'{"version":0,')
    assert not life(is_believed, tmp_path)
    life(write, tmp_path, boot="second")
    assert life(is_believed, tmp_path, boot="second")


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_failed_directory_whose_marker_cannot_be_removed_has_kept_nothing_either(
    tmp_path: Path, is_clean: bool
) -> None:
    """LOG-11, REG-8: as on a file system that is read-only since; what others say is the least."""
    paths = (tmp_path / "a", tmp_path / "b")

    class ReadOnly(Machine):
        def remove(self, path: str) -> None:
            if path == f"{paths[0]}/{BOOT_FILE}":
                raise OSError(errno.EROFS, "read-only", path)
            super().remove(path)

        def open(self, path: str, *, create: bool = False, read_only: bool = False) -> DiskFile:
            if path == f"{paths[0]}/{BOOT_FILE}":
                raise OSError(errno.EROFS, "read-only", path)
            return super().open(path, create=create, read_only=read_only)

    async def fail(manager: LogManager) -> None:
        await write(manager)
        manager.take_offline(str(paths[0]), OSError(errno.EIO, "fsync"))

    run_with(manager_over(*paths, disk=ReadOnly()), fail, is_clean_stop=is_clean)
    assert life(kept, *paths) == [EPOCH, -1]


def test_one_directory_that_lost_its_marker_speaks_for_itself(tmp_path: Path) -> None:
    """NODE-8: a directory that was replaced has kept nothing."""
    paths = (tmp_path / "a", tmp_path / "b")
    life(write, *paths)
    (paths[1] / BOOT_FILE).unlink()
    assert life(kept, *paths) == [EPOCH, -1]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"version":1,"bootId":"first","brokerEpoch":3}', b'{"version":0}'],
)
def test_a_damaged_boot_file_proves_nothing(tmp_path: Path, content: bytes) -> None:
    """REG-8: without proof a stop was unclean."""
    disk = Machine()
    marker = BootMarker(disk, str(tmp_path))
    marker.write(3)
    assert marker.broker_epoch() == 3
    (tmp_path / BOOT_FILE).write_bytes(content)
    assert marker.broker_epoch() == -1


def test_the_kernel_tells_its_boot(tmp_path: Path) -> None:
    """The same for every process of a boot."""
    assert RealDisk().boot_id() == RealDisk().boot_id()
    BootMarker(RealDisk(), str(tmp_path)).write(3)
    assert json.loads((tmp_path / BOOT_FILE).read_bytes())["bootId"] == RealDisk().boot_id()


def lost_after(manager: LogManager) -> set[str]:
    """What a start finds lost; it ends before anybody was told."""

    async def main() -> set[str]:
        await manager.load(lambda topic, topic_id: topic_config())
        found = {name.topic for name in manager.lost}
        await manager.close(8)
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["torn", "gone", "none"])
def test_a_log_that_lacks_what_was_flushed_is_found_until_somebody_knows(
    tmp_path: Path, damage: str, is_clean: bool
) -> None:
    """Proof of loss: an end below the recovery point, or no folder; found again until told."""
    run_with(manager_over(tmp_path), write, is_clean_stop=is_clean)
    folder = tmp_path / "t-0"
    if damage == "torn":
        data = (folder / LOG_FILE).read_bytes()
        (folder / LOG_FILE).write_bytes(data[: len(data) // 2])
    elif damage == "gone":
        RealDisk().remove_tree(str(folder))
    wanted = set() if damage == "none" else {"t"}
    assert lost_after(manager_over(tmp_path)) == wanted
    assert lost_after(manager_over(tmp_path)) == wanted

    async def nothing(manager: LogManager) -> None:
        """It has been told: `run_with` forgets."""

    run_with(manager_over(tmp_path), nothing)
    assert lost_after(manager_over(tmp_path)) == set()


def test_a_stray_of_an_earlier_topic_of_the_name_is_no_loss(tmp_path: Path) -> None:
    """The topic was deleted and made anew while the broker was down: what is new lacks nothing."""
    run_with(manager_over(tmp_path), write, is_clean_stop=False)

    async def main() -> set[str]:
        manager = manager_over(tmp_path)
        await manager.load(lambda topic, topic_id: None)
        found = {name.topic for name in manager.lost}
        await manager.close(8)
        return found

    assert asyncio.run(main()) == set()


def test_a_crash_before_the_checkpoints_forget_a_stray_is_no_loss_either(tmp_path: Path) -> None:
    """The next start finds a name in them, and no log: but the folder says whose that is."""
    run_with(manager_over(tmp_path), write, is_clean_stop=False)

    async def put_aside() -> None:
        manager = manager_over(tmp_path)
        await manager.load(lambda topic, topic_id: None)
        crash(manager)

    asyncio.run(put_aside())
    assert lost_after(manager_over(tmp_path)) == set()

    async def make_anew(manager: LogManager) -> None:
        await write(manager)

    run_with(manager_over(tmp_path), make_anew)
    assert len(list(tmp_path.glob("t-0.*-stray"))) == 1
    RealDisk().remove_tree(str(tmp_path / "t-0"))
    assert lost_after(manager_over(tmp_path)) == {"t"}, "the stray is an old one by now"


def test_what_a_stray_says_of_itself_survives_a_power_cut() -> None:
    """TOP-15: its topic and its log start are known when it is restored."""
    disk = SimulatedDisk(SimulatedRandom(1), SimulatedClock())

    async def main() -> None:
        manager = manager_over(Path("/data"), disk=disk)
        await manager.load(lambda topic, topic_id: topic_config())
        await write(manager)
        log = manager.logs[partition("t")]
        log.advance_log_start_offset(1)
        await log.flush()
        manager.put_log_aside(log, "is not ours")
        await manager.note_deletions()
        disk.crash(keep_some=False)

    asyncio.run(main())
    (stray,) = list_strays(disk, "/data")
    assert (stray.reason, stray.log_start_offset, stray.is_name_whole) == ("is not ours", 1, True)
    assert unsettled_strays(disk, "/data") == []

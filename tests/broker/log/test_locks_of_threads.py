"""Files that several threads of one log may replace: in turn, and none returns early."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas_broker.env.disk import Buffer, DiskDirectory
from barnabas_broker.log.holes import Holes
from barnabas_broker.log.leader_epochs import LeaderEpochs
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

FOLDER = "/data/t-0"


class SlowDisk(SimulatedDisk):
    """A replacement of a file stands still until `gate` is open."""

    def __init__(self) -> None:
        super().__init__(SimulatedRandom(1))
        self.gate = threading.Event()
        self.has_begun = threading.Event()
        self.at_work = 0
        self.at_work_max = 0

    def write_atomically(self, path: str, data: Buffer) -> None:
        self.at_work += 1
        self.at_work_max = max(self.at_work_max, self.at_work)
        self.has_begun.set()
        self.gate.wait(30)
        super().write_atomically(path, data)
        self.at_work -= 1


def flush_of_holes(disk: SlowDisk, folder: DiskDirectory) -> Callable[[], None]:
    holes = Holes(disk, FOLDER)
    holes.allow(10)
    return lambda: holes.flush(folder, 10)


def flush_of_epochs(disk: SlowDisk, folder: DiskDirectory) -> Callable[[], None]:
    epochs = LeaderEpochs(disk, f"{FOLDER}/leader-epoch-checkpoint")
    epochs.assign(3, 10)
    return lambda: epochs.flush(folder)


@pytest.mark.parametrize("of", [flush_of_holes, flush_of_epochs])
def test_a_flush_waits_for_the_one_that_writes_just_now(
    of: Callable[[SlowDisk, DiskDirectory], Callable[[], None]],
) -> None:
    """Who flushes next raises the recovery point on the word that the file is on the device."""
    disk = SlowDisk()
    disk.make_directories(FOLDER)
    flush = of(disk, disk.open_directory(FOLDER))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(flush)
        assert disk.has_begun.wait(30)
        second = threads.submit(flush)
        with pytest.raises(TimeoutError):
            second.result(0.05)
        disk.gate.set()
        first.result(30)
        second.result(30)
    assert disk.at_work_max == 1

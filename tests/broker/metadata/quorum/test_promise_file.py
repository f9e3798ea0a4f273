"""The promised controller epoch on disk."""

import asyncio

import pytest

from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.metadata.quorum.promise_file import PromiseFile
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_random import SimulatedRandom

DIRECTORY = "data/log/__cluster_metadata-0"


def new_disk(seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(SimulatedRandom(seed))
    disk.make_directories(DIRECTORY)
    return disk


def test_a_promise_survives_every_crash() -> None:
    """Rule 2: a node that forgets one could obey two leaders."""
    for seed in range(20):
        disk = new_disk(seed)
        for epoch in (1, 2, 300):
            asyncio.run(PromiseFile(disk, DIRECTORY).write(epoch))
            disk.crash()
            assert PromiseFile(disk, DIRECTORY).read() == epoch


def test_a_promise_that_could_not_be_written_is_the_old_one() -> None:
    """Nothing was said in the new epoch by then."""
    disk = new_disk()
    asyncio.run(PromiseFile(disk, DIRECTORY).write(4))
    disk.fail("rename", "promised")
    with pytest.raises(OSError, match="simulated"):
        asyncio.run(PromiseFile(disk, DIRECTORY).write(5))
    disk.crash()
    assert PromiseFile(disk, DIRECTORY).read() == 4


@pytest.mark.parametrize("content", [b"", b"0\n", b"1\n7\n", b"0\n-1\n", b"0\n7\n8\n", b"\xff"])
def test_a_file_that_makes_no_sense_stops_the_start(content: bytes) -> None:
    """It must not be taken for no promise."""
    disk = new_disk()
    promise = PromiseFile(disk, DIRECTORY)
    assert promise.read() == 0
    disk.write_atomically(promise.path, content)
    with pytest.raises(MetadataLogError):
        promise.read()

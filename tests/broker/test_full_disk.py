"""A real disk that fills up under a real broker. Needs root, for a file system of its own."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.simulation import requests
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient
from tests.support.small_disks import fill_up, small_disks, take_all_inodes
from tests.support.waiting import wait_until

TOPIC = "orders"
MEBIBYTES = 64


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_full_disk_refuses_producers_until_there_is_room(tmp_path: Path) -> None:
    """VOL-4, VOL-5: the broker lives, consumers are served, and it ends by itself."""
    folder = tmp_path / "broker" / "data"
    with small_disks([folder], MEBIBYTES), BarnabasProcess(tmp_path / "broker") as broker:

        def guard() -> str:
            try:
                return str(broker.status()["log_directories"][0]["guard"])
            except OSError as error:  # the admin port opens a little later
                return str(error)

        async def append() -> requests.Appended:
            async with await RawClient.connect(broker.port) as client:
                return await requests.append(client, requests.append_request(TOPIC, 0, [b"x"]))

        async def begin() -> None:
            async with await RawClient.connect(broker.port) as client:
                await requests.create_topic(client, TOPIC, retention_ms="-1")

        async def read() -> int:
            async with await RawClient.connect(broker.port) as client:
                return len(await requests.read_all(client, TOPIC, 0))

        asyncio.run(begin())
        assert asyncio.run(append()).error_code == 0
        fill_up(folder, folder / "filler")
        wait_until(lambda: guard() == "CRITICAL", 60, guard)
        assert asyncio.run(append()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert asyncio.run(read()) == 1
        (folder / "filler").unlink()
        wait_until(lambda: guard() == "ENOUGH", 60, guard)
        assert asyncio.run(append()) == (0, 1)
        assert asyncio.run(read()) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_a_disk_that_takes_no_more_files_is_a_full_one(tmp_path: Path) -> None:
    """There are bytes enough, but a new segment cannot be made: refused, and nothing is lost."""
    folder, value = tmp_path / "broker" / "data", os.urandom(200_000)
    with (
        small_disks([folder], 256, inodes=100),
        BarnabasProcess(tmp_path / "broker") as broker,
    ):

        async def append() -> requests.Appended:
            async with await RawClient.connect(broker.port) as client:
                return await requests.append(client, requests.append_request(TOPIC, 0, [value]))

        async def begin() -> None:
            async with await RawClient.connect(broker.port) as client:
                await requests.create_topic(client, TOPIC, segment_bytes="1048576")

        async def read() -> int:
            async with await RawClient.connect(broker.port) as client:
                return len(await requests.read_all(client, TOPIC, 0))

        asyncio.run(begin())
        take_all_inodes(folder / "files")
        answers = [asyncio.run(append())]
        while answers[-1].error_code == 0 and len(answers) < 60:
            answers.append(asyncio.run(append()))
        assert answers.pop().error_code == ErrorCode.KAFKA_STORAGE_ERROR
        shutil.rmtree(folder / "files")
        wait_until(lambda: asyncio.run(append()).error_code == 0, 60, lambda: str(answers[-1]))
        assert asyncio.run(read()) == len(answers) + 1

"""Directories that fail and disks that are full take down what is on them, and nothing else."""

import asyncio

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.simulation import requests
from tests.simulation.history import History
from tests.simulation.workload import create, until_coordinated
from tests.support.raw_client import RawClient
from tests.support.simulated_broker import Life, Machine

TOPIC = "orders"
TWO_DIRECTORIES = {"log.dirs": "/data-1,/data-2", "metadata.log.dir": "/data-1"}


async def append(client: RawClient, partition: int, size: int = 1) -> int:
    request = requests.append_request(TOPIC, partition, [b"x" * size])
    return (await requests.append(client, request)).error_code


@pytest.mark.parametrize("policy", ["page-cache", "group-fsync"])
def test_of_two_directories_one_fails_and_the_other_serves(policy: str) -> None:
    """LOG-11, NODE-8: 56 for what is on the failed one, a line that names it, all else goes on."""
    machine = Machine(1, {**TWO_DIRECTORIES, "barnabas.flush.policy": policy})
    placed: dict[int, str] = {}

    async def fails(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC, 4)
            for partition in range(4):
                assert await append(client, partition) == 0
            for name, log in life.server.logs.logs.items():
                if name.topic == TOPIC:
                    placed[name.partition] = log.directory.rsplit("/", 1)[0]
            assert set(placed.values()) == {"/data-1", "/data-2"}
            life.machine.disk.failing_prefix = "/data-2"
            for partition, directory in placed.items():
                # The first one finds out; the answer may already be an error.
                expected = ErrorCode.KAFKA_STORAGE_ERROR if directory == "/data-2" else 0
                assert await append(client, partition) == expected
            for partition, directory in placed.items():
                found = await requests.read_from(client, TOPIC, partition, 0)
                expected = ErrorCode.KAFKA_STORAGE_ERROR if directory == "/data-2" else 0
                assert found.error_code == expected
            assert life.server.fatal_error is None
            assert await requests.create_topic(client, "later", 2) == (
                0,
                life.server.image.topics.by_name["later"].topic_id,
            )
            await asyncio.sleep(120)
            for partition, directory in placed.items():
                expected = ErrorCode.KAFKA_STORAGE_ERROR if directory == "/data-2" else 0
                assert await append(client, partition) == expected

    async def is_back(life: Life) -> None:
        async with await life.connect() as client:
            for partition in range(4):
                assert await append(client, partition) == 0
                records = await requests.read_all(client, TOPIC, partition)
                assert len(records) >= (2 if placed[partition] == "/data-2" else 4)

    machine.live(fails)
    assert any("/data-2" in line and "offline" in line for line in machine.lines)
    machine.disk.failing_prefix = None
    machine.live(is_back)


def test_a_directory_that_fails_at_the_start_is_left_out() -> None:
    """NODE-8: the broker starts with the other one."""
    machine = Machine(2, TWO_DIRECTORIES)

    async def first(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC, 4)

    async def second(life: Life) -> None:
        async with await life.connect() as client:
            codes = [await append(client, partition) for partition in range(4)]
            assert sorted(set(codes)) == [0, ErrorCode.KAFKA_STORAGE_ERROR]

    assert machine.live(first)
    machine.disk.failing_prefix = "/data-2"
    machine.live(second)
    assert any("/data-2" in line and "offline" in line for line in machine.lines)


def test_a_full_disk_refuses_appends_and_loses_nothing_acknowledged() -> None:
    """VOL-4: no room is no failure of the disk; with room again all is there."""
    machine = Machine(3, {**TWO_DIRECTORIES, "offsets.topic.num.partitions": "1"})
    history = History(is_durable=True)
    acknowledged = [0, 0]

    async def fills(life: Life) -> None:
        async with await life.connect() as client:
            assert await create(history, client, TOPIC, 2) == 0
            await until_coordinated(client, "group")
            disk = life.machine.disk
            disk.capacity_bytes = disk.used_bytes + 10_000
            for number in range(40):
                error_code = await append(client, number % 2, size=1_000)
                acknowledged[number % 2] += error_code == 0
                assert error_code in (0, ErrorCode.KAFKA_STORAGE_ERROR)
            assert 4 < sum(acknowledged) < 12

    async def has_room(life: Life) -> None:
        async with await life.connect() as client:
            for partition in range(2):
                records = await requests.read_all(client, TOPIC, partition)
                assert len(records) == acknowledged[partition]
                assert await append(client, partition) == 0

    machine.live(fills)
    assert any("disk guard: /data-1 is CRITICAL" in line for line in machine.lines)
    assert not any("offline" in line for line in machine.lines)
    machine.disk.capacity_bytes = 1 << 40
    machine.live(has_room)

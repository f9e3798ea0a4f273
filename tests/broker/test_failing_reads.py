"""A disk that fails under a reader, seen from the reader's connection."""

import asyncio

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.simulation import requests
from tests.support.simulated_broker import Life, Machine

TOPIC = "orders"


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_fetch_whose_disk_fails_is_answered_and_the_directory_goes_offline(is_cold: bool) -> None:
    """LOG-11, PUR-1: 56 for that partition, in time, whether the loop or a thread has read."""
    machine = Machine(
        1,
        {
            "log.dirs": "/data-1,/data-2",
            "metadata.log.dir": "/data-1",
            "barnabas.tail.cache.bytes": "0",
        },
    )

    async def fails(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC, 2)
            for partition in range(2):
                request = requests.append_request(TOPIC, partition, [b"x"])
                assert (await requests.append(client, request)).error_code == 0
            there = {
                name.partition: log.directory
                for name, log in life.server.logs.logs.items()
                if name.topic == TOPIC
            }
            (failing,) = (number for number, path in there.items() if "/data-2" in path)
            life.machine.disk.is_cold = is_cold
            life.machine.disk.fail("read", there[failing])
            async with asyncio.timeout(5):
                found = await requests.read_from(client, TOPIC, failing, 0)
            assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert [item.path for item in life.server.logs.online_directories()] == ["/data-1"]
            async with asyncio.timeout(5):
                found = await requests.read_from(client, TOPIC, 1 - failing, 0)
            assert found.error_code == 0

    machine.live(fails)
    assert any("/data-2" in line and "offline" in line for line in machine.lines)

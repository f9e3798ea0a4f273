"""Administrators and NTP set the wall clock, in both directions, under a running broker."""

import asyncio

import pytest

from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import fetch
from tests.simulation import requests
from tests.simulation.long_run import HOUR_MS, PATIENT, SPAN_MS, SPAN_SECONDS, TOPIC, produced, run
from tests.simulation.workload import until_coordinated
from tests.support.simulated_broker import Life, Machine

DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("jump_ms", [-10 * DAY_MS, -1, 1, 2 * DAY_MS], ids=lambda ms: f"{ms} ms")
def test_a_jump_of_the_wall_disturbs_no_request(jump_ms: int) -> None:
    """style.md section 4: durations are measured on the monotonic clock."""
    machine = Machine(1)

    async def work(life: Life) -> None:
        loop = asyncio.get_running_loop()
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC)
            await until_coordinated(client, "group")
            producer = await requests.new_producer(client)
            for number in range(3):
                await produced(life, client, b"x", producer=producer, sequence=number)
                assert await requests.commit_offset(client, "group", TOPIC, 0, number) == 0
                life.machine.clock.jump_wall(jump_ms)
            started = loop.time()
            waiting = fetch.FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=[_topic(3)])
            task = asyncio.ensure_future(client.call(ApiKey.FETCH, 11, waiting))
            await asyncio.sleep(1)
            life.machine.clock.jump_wall(jump_ms)
            response = await task
            assert response.responses[0].partitions[0].error_code == 0
            assert 4.9 < loop.time() - started < 5.2
            # Less than what an idle connection is left open.
            await asyncio.sleep(540)
            assert len(await requests.read_all(client, TOPIC, 0)) == 3
            assert await requests.committed_offset(client, "group", TOPIC, 0) == (0, 2)

    run(machine, work)
    machine.clock.jump_wall(jump_ms)

    async def again(life: Life) -> None:
        async with await life.connect() as client:
            assert len(await requests.read_all(client, TOPIC, 0)) == 3
            assert await produced(life, client, b"y") == 3

    run(machine, again)


def test_a_wall_that_went_back_keeps_young_records_longer_and_still_ends() -> None:
    """SEG-10: retention counts by the wall; nothing is deleted early, and all of it in the end."""
    machine = Machine(2, PATIENT | {"log.retention.check.interval.ms": "10000"})

    async def work(life: Life) -> None:
        async with await life.connect() as client:
            await requests.create_topic(client, TOPIC, retention_ms=str(SPAN_MS))
            await produced(life, client, b"x")
            life.machine.clock.jump_wall(-SPAN_MS)
            await asyncio.sleep(1.5 * SPAN_SECONDS)
            assert len(await requests.read_all(client, TOPIC, 0)) == 1
            await asyncio.sleep(SPAN_SECONDS)
            assert await requests.read_all(client, TOPIC, 0) == []

    run(machine, work)


def _topic(offset: int) -> fetch.FetchTopic:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    return fetch.FetchTopic(topic=TOPIC, partitions=[partition])

"""Calls while the broker is down: they wait for it within their time, and say so after it."""

import asyncio
from pathlib import Path

from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import TimedOutError
from tests.client.admin.raw_requests import connected
from tests.support.barnabas_process import BarnabasProcess


def test_a_call_outlives_a_restart_of_the_broker_and_not_its_own_time(tmp_path: Path) -> None:
    """Killed and started again on its port: the call that waited is carried out once."""
    broker = BarnabasProcess(tmp_path)
    broker.start()

    async def run() -> None:
        async with connected(broker.bootstrap, request_timeout_ms=2000) as (_, admin):
            (await admin.topics.create([NewTopic(name="before")])).unwrap()
            broker.kill()
            short = await admin.topics.create([NewTopic(name="too-late")], timeout_ms=200)
            assert isinstance(short["too-late"].error, TimedOutError)
            assert str(short["too-late"].error).startswith("create topic too-late: ")

            waiting = asyncio.create_task(admin.topics.create([NewTopic(name="after")]))
            again = BarnabasProcess(tmp_path, port=broker.port)
            await asyncio.to_thread(again.start)
            try:
                assert (await waiting)["after"].is_ok
                names = {topic.name for topic in await admin.topics.list()}
                assert names == {"before", "after"}
            finally:
                await asyncio.to_thread(again.stop)

    asyncio.run(run())

"""The roles on uvloop, which many services run: nothing depends on asyncio's own loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from barnabas_client import Admin, Consumer, Producer
from barnabas_client.admin import NewTopic
from barnabas_client.errors import BrokerUnreachableError
from tests.support.processes import free_port


def run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert isinstance(runner.get_loop(), uvloop.Loop)
        runner.run(work)


def test_each_role_works_on_uvloop(bootstrap: str, unique: Callable[[str], str]) -> None:
    """A topic is made, written, read by a group, and deleted."""
    topic, group = unique("uvloop"), unique("group")

    async def body() -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            (await admin.topics.create([NewTopic(name=topic, partition_count=2)])).unwrap()
            for number in range(1000):
                producer.send(topic, b"%d" % number, partition=number % 2)
                await producer.drain()
            await producer.flush()
            async with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as reader:
                reader.subscribe([topic])
                found: list[bytes | None] = []
                async with asyncio.timeout(30):
                    async for record in reader:
                        found.append(record.value)
                        if len(found) == 1000:
                            break
            assert sorted(int(value or b"") for value in found) == list(range(1000))
            (await admin.topics.delete([topic])).unwrap()

    run(body())


def test_a_cluster_that_is_not_there_is_told_on_uvloop() -> None:
    """Connecting fails in the same way on any loop."""

    async def body() -> None:
        with pytest.raises(BrokerUnreachableError):
            async with Admin(f"127.0.0.1:{free_port()}", default_api_timeout_ms=300):
                pass

    run(body())

"""A broker that is killed or falls silent under a producer and a group of consumers of ours.

Longer than the request timeout, once longer than the session timeout; both brokers.
"""

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from barnabas_client import Consumer, Producer
from barnabas_client.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.client.attack.histories import SETTINGS, History, read_all
from tests.client.attack.readings import GROUP_SETTINGS, Member, Reading, check_commits
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_brokers import PROPERTIES
from tests.support.history import violations

PARTITIONS = 4
TOPIC, GROUP = "faults", "readers"
AnyBroker = BarnabasProcess | ApacheKafka


async def disturb(broker: AnyBroker, fault: str, seconds: float) -> None:
    """Kill and start the broker, or stop the time for it."""
    if fault == "kill":
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        return
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


async def write(producer: Producer, history: History, is_over: asyncio.Event) -> None:
    """Send as fast as the broker takes it, in bursts."""
    rng = random.Random(1)
    while not is_over.is_set():
        for _ in range(50):
            history.send(producer, TOPIC, rng.randrange(PARTITIONS), b"x" * 100)
            await producer.drain()
        await asyncio.sleep(0.02)
    await producer.flush()


async def attack(broker: AnyBroker, fault: str, strategy: str, rounds: int) -> None:
    rng = random.Random(rounds)
    reading, history, is_over = Reading(), History(), asyncio.Event()
    settings: dict[str, Any] = {
        **GROUP_SETTINGS,
        "group_protocol": "classic",
        "partition_assignment_strategy": [strategy],
    }
    async with Admin(broker.bootstrap) as admin:
        (await admin.topics.create([NewTopic(name=TOPIC, partition_count=PARTITIONS)])).unwrap()

    def is_read() -> bool:
        return bool(reading.problems) or (
            is_over.is_set() and not history.open_count and reading.count >= written()
        )

    def written() -> int:
        return sum(map(len, history.acknowledged.values()))

    async def member(name: str) -> None:
        one = Member(reading, name)
        async with Consumer(broker.bootstrap, group_id=GROUP, **settings) as consumer:
            consumer.subscribe([TOPIC], listener=one)
            await one.run(consumer, random.Random(name), is_read)

    async with (
        asyncio.timeout(200),
        Producer(broker.bootstrap, **{**SETTINGS, "request_timeout_ms": 1000}) as producer,
    ):
        tasks = [asyncio.ensure_future(member(name)) for name in "abc"]
        tasks.append(asyncio.ensure_future(write(producer, history, is_over)))
        for number in range(rounds):
            before = written()
            while written() < before + 300:
                await asyncio.sleep(0.05)
                assert not reading.problems, reading.problems
            await disturb(broker, fault, 8 if number == 1 else rng.uniform(1.2, 3))
        is_over.set()
        await asyncio.gather(*tasks)
    assert reading.problems == []
    assert not history.failures
    found = await read_all(broker.bootstrap, TOPIC, PARTITIONS)
    assert violations(history.acknowledged, found) == []
    async with Admin(broker.bootstrap) as admin:
        check_commits((await admin.group_offsets.list([GROUP]))[GROUP], reading)
    assert reading.problems == []


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("fault", ["kill", "stop"])
@pytest.mark.parametrize("kind", ["barnabas", pytest.param("apache", marks=pytest.mark.long)])
def test_nothing_is_lost_doubled_or_skipped(
    kind: str, fault: str, strategy: str, tmp_path: Path
) -> None:
    """PRD-9, CON-8, CLI-5: acknowledged once, in order; read at least once; not committed early."""
    create: type[AnyBroker] = BarnabasProcess if kind == "barnabas" else ApacheKafka
    with create(tmp_path, properties=PROPERTIES) as broker:
        asyncio.run(attack(broker, fault, strategy, 4))

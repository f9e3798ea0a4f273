"""What is acknowledged is in the log, once and in order, whatever the network does."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from barnabas_client import Producer
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.errors import BufferFullError
from tests.client.attack.behind_proxy import BehindProxy
from tests.client.attack.histories import SETTINGS, History, read_all
from tests.support.faulty_proxy import FaultyProxy
from tests.support.history import violations

Names = Callable[[str], str]

LONG = pytest.mark.interop


async def run_history(
    proxy: FaultyProxy, topic: str, rng: random.Random, record_count: int, **settings: Any
) -> tuple[History, dict[int, list[tuple[int, int]]]]:
    """Produce while the network fails; then read everything on a network that works."""
    history = History()
    partition_count = rng.choice([1, 3, 20])
    async with proxy:
        faults, proxy.faults = proxy.faults, (proxy.faults[0],)
        async with Admin(proxy.bootstrap) as admin:
            (
                await admin.topics.create([NewTopic(name=topic, partition_count=partition_count)])
            ).unwrap()
        await proxy.cut()
        async with Producer(
            proxy.bootstrap,
            **{
                **SETTINGS,
                "batch_size": rng.choice([200, 4000, 16384]),
                "linger_ms": rng.choice([0, 5]),
                "compression_type": rng.choice(["none", "none", "lz4"]),
                **settings,
            },
        ) as producer:
            proxy.faults = faults
            await proxy.cut()
            for _ in range(record_count):
                padding = b"x" * int(4 ** (rng.random() * 5))
                try:
                    history.send(producer, topic, rng.randrange(partition_count), padding)
                except BufferFullError as error:
                    history.failures.append(error)
                if rng.random() < 0.02:
                    await asyncio.sleep(rng.random() * 0.02)
                await producer.drain()
            async with asyncio.timeout(60):
                await producer.flush()
            assert not history.open_count
            await proxy.calm()
        found = await read_all(proxy.bootstrap, topic, partition_count)
    return history, found


@pytest.mark.parametrize(
    ("seed", "record_count"),
    [(1, 1500), *[pytest.param(seed, 20_000, marks=LONG) for seed in range(3, 7)]],
)
def test_an_idempotent_producer_loses_doubles_and_moves_nothing(
    behind_proxy: BehindProxy, unique: Names, seed: int, record_count: int
) -> None:
    """PRD-8, PRD-9: acknowledged exactly once and in order, failed at most once."""

    async def attack() -> None:
        rng = random.Random(seed)
        proxy = behind_proxy.proxy(rng)
        delivery_timeout_ms = rng.choice([1000, 30_000])
        history, found = await run_history(
            proxy,
            unique("history"),
            rng,
            record_count,
            delivery_timeout_ms=delivery_timeout_ms,
            max_in_flight_requests_per_connection=rng.choice([1, 5]),
        )
        assert violations(history.acknowledged, found) == []
        sent_count = sum(history.sent.values())
        acknowledged_count = sum(map(len, history.acknowledged.values()))
        assert acknowledged_count + len(history.failures) >= sent_count
        if delivery_timeout_ms > 1000:
            assert acknowledged_count == sent_count, history.failures[:3]

    asyncio.run(attack())


@pytest.mark.parametrize(
    ("seed", "record_count"),
    [(1, 1500), *[pytest.param(seed, 10_000, marks=LONG) for seed in range(2, 4)]],
)
def test_a_producer_without_idempotence_loses_nothing_that_was_acknowledged(
    behind_proxy: BehindProxy, unique: Names, seed: int, record_count: int
) -> None:
    """PRD-8: at least once; with one request in flight the first copies are in order."""

    async def attack() -> None:
        rng = random.Random(seed)
        history, found = await run_history(
            behind_proxy.proxy(rng),
            unique("history"),
            rng,
            record_count,
            enable_idempotence=False,
            acks=rng.choice(["all", 1]),
            delivery_timeout_ms=30_000,
        )
        for partition, numbers in history.acknowledged.items():
            offsets = {number: offset for offset, number in found[partition]}
            assert set(numbers) <= set(offsets)
            at = dict(found[partition])
            assert all(at[offset] == number for number, offset in numbers.items() if offset >= 0)
        assert not history.failures

    asyncio.run(attack())

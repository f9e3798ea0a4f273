"""A group that reads through a failing network skips nothing and commits nothing too early."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from barnabas_client import Consumer, Producer
from barnabas_client.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.client.attack.behind_proxy import BehindProxy
from tests.client.attack.histories import SETTINGS
from tests.client.attack.readings import (
    GROUP_SETTINGS,
    Member,
    Reading,
    check_commits,
    watch_commits,
)
from tests.support.faulty_proxy import Fault

Names = Callable[[str], str]
LONG = pytest.mark.interop


@pytest.mark.parametrize(
    ("seed", "record_count", "strategy"),
    [
        (1, 1500, "range"),
        (2, 1500, "cooperative-sticky"),
        *[
            pytest.param(seed, 10_000, strategy, marks=LONG)
            for seed in range(3, 5)
            for strategy in ("range", "cooperative-sticky", "next")
        ],
    ],
)
def test_a_group_skips_nothing_and_commits_only_what_was_processed(
    behind_proxy: BehindProxy, unique: Names, seed: int, record_count: int, strategy: str
) -> None:
    """CON-4, CON-8: at least once, in order, whatever becomes of connections and members."""

    async def attack() -> None:
        rng = random.Random(seed)
        topic, group = unique("read"), unique("group")
        reading = Reading()
        settings: dict[str, Any] = dict(GROUP_SETTINGS)
        if strategy == "next":
            del settings["session_timeout_ms"], settings["heartbeat_interval_ms"]
            settings["group_protocol"] = "consumer"
        else:
            settings["partition_assignment_strategy"] = [strategy]

        def is_done() -> bool:
            return reading.count >= record_count or bool(reading.problems)

        def is_over(end: int) -> bool:
            return is_done() or reading.count >= end

        async def member(name: str, lives: int) -> Member:
            one = Member(reading, name)
            own = random.Random(f"{seed}{name}")
            for life in range(lives):
                ends_at = reading.count + record_count // 5 if life < lives - 1 else 1 << 60
                consumer = Consumer(proxy.bootstrap, group_id=group, **settings)
                try:
                    await consumer.start()
                    consumer.subscribe([topic], listener=one)
                    await one.run(consumer, own, partial(is_over, ends_at))
                finally:
                    one.next_offsets.clear()
                    await consumer.close(3000)
            return one

        async with behind_proxy.proxy(rng, (Fault.NONE,)) as proxy:
            async with (
                Admin(proxy.bootstrap) as admin,
                Producer(proxy.bootstrap, linger_ms=1) as producer,
            ):
                (await admin.topics.create([NewTopic(name=topic, partition_count=6)])).unwrap()
                for number in range(record_count // 2):
                    producer.send(topic, b"%d" % number, partition=rng.randrange(6))
                await producer.flush()
            proxy.faults = (
                *[Fault.NONE] * 6,
                Fault.CLOSE,
                Fault.RESET,
                Fault.THROTTLE,
                Fault.DELAY,
                Fault.SILENCE,
            )

            async def write() -> None:
                async with Producer(proxy.bootstrap, **SETTINGS) as producer:
                    for number in range(record_count - record_count // 2):
                        producer.send(topic, b"%d" % number, partition=rng.randrange(6))
                        if rng.random() < 0.02:
                            await asyncio.sleep(0.01)
                    await producer.flush()

            async with asyncio.timeout(100), Admin(proxy.bootstrap, **SETTINGS) as admin:
                watcher = asyncio.ensure_future(watch_commits(admin, group, reading, is_done))
                await asyncio.gather(write(), member("a", 3), member("b", 2), member("c", 1))
                await watcher
            await proxy.calm()
            async with Admin(proxy.bootstrap) as admin:
                check_commits((await admin.group_offsets.list([group]))[group], reading)
        assert reading.problems == []

    asyncio.run(attack())

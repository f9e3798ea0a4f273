"""A group that reads through a failing network skips nothing and commits nothing too early."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest

from barnabas_client import Consumer, Producer, RebalanceListener, TopicPartition
from barnabas_client.admin import Admin
from barnabas_client.admin.group_offsets import Committed
from barnabas_client.admin.outcome import Outcome
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import BarnabasError
from tests.client.attack.conftest import BehindProxy
from tests.client.attack.histories import SETTINGS
from tests.support.faulty_proxy import Fault

Names = Callable[[str], str]
LONG = pytest.mark.interop
GROUP_SETTINGS: dict[str, Any] = {
    **SETTINGS,
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 1000,
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 100,
    "fetch_max_wait_ms": 50,
    "auto_commit_interval_ms": 50,
    "max_poll_interval_ms": 20_000,
}


class Reading:
    """What all members of a group have processed, and what is wrong with it."""

    def __init__(self) -> None:
        self.processed: dict[TopicPartition, set[int]] = defaultdict(set)
        self.problems: list[str] = []

    @property
    def count(self) -> int:
        return sum(map(len, self.processed.values()))


class Member(RebalanceListener):
    """One consumer with its own idea of where each partition is."""

    def __init__(self, reading: Reading, name: str) -> None:
        self.reading = reading
        self.name = name
        self.next_offsets: dict[TopicPartition, int] = {}
        self.errors: list[BarnabasError] = []

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.next_offsets.pop(partition, None)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.next_offsets.pop(partition, None)

    def process(self, topic: str, number: int, offset: int) -> None:
        """Take note of a record; within an assignment offsets only rise, without a gap."""
        partition = TopicPartition(topic, number)
        expected = self.next_offsets.get(partition)
        if expected is not None and offset != expected:
            self.reading.problems.append(f"{self.name} {partition}: {offset} for {expected}")
        processed = self.reading.processed[partition]
        if expected is None and offset and not processed & {offset - 1, offset}:
            self.reading.problems.append(f"{self.name} {partition} begins at {offset}")
        self.next_offsets[partition] = offset + 1
        processed.add(offset)

    async def run(self, consumer: Consumer, rng: random.Random, until: Callable[[], bool]) -> None:
        """Read in changing ways."""
        is_iterating = rng.random() < 0.4
        while not until():
            try:
                if is_iterating:
                    count = rng.randint(1, 400)
                    async with asyncio.timeout(0.3):
                        async for record in consumer:
                            self.process(record.topic, record.partition, record.offset)
                            count -= 1
                            if not count:
                                break
                else:
                    for record in await consumer.poll(
                        timeout_ms=100, max_records=rng.choice([1, 7, 500])
                    ):
                        self.process(record.topic, record.partition, record.offset)
                    if rng.random() < 0.1:
                        await consumer.commit(timeout_ms=2000)
                if rng.random() < 0.05:
                    consumer.commit_soon()
                await asyncio.sleep(rng.random() * 0.01)
            except TimeoutError:
                pass
            except BarnabasError as error:
                self.errors.append(error)


async def watch_commits(
    admin: Admin, group: str, reading: Reading, until: Callable[[], bool]
) -> None:
    """What is committed was processed, all of it."""
    while not until():
        try:
            found = (await admin.group_offsets.list([group], timeout_ms=2000))[group]
        except BarnabasError:
            continue
        check_commits(found, reading)
        await asyncio.sleep(0.02)


def check_commits(found: Outcome[Committed], reading: Reading) -> None:
    """Nothing below a committed offset is missing."""
    if found.error is not None:
        return
    for partition, committed in found.unwrap().items():
        if committed is not None:
            missing = set(range(committed.offset)) - reading.processed[partition]
            if missing:
                reading.problems.append(f"{partition} committed {committed.offset}: {missing}")


@pytest.mark.parametrize(
    ("seed", "record_count", "strategy"),
    [
        (1, 1500, "range"),
        (2, 1500, "cooperative-sticky"),
        *[
            pytest.param(seed, 10_000, strategy, marks=LONG)
            for seed in range(3, 8)
            for strategy in ("range", "cooperative-sticky", "next")
        ],
    ],
)
def test_a_group_skips_nothing_and_commits_only_what_was_processed(
    behind_proxy: BehindProxy, unique: Names, seed: int, record_count: int, strategy: str
) -> None:
    """CON-4, CON-8: at least once, in order, whatever becomes of connections and members."""
    if strategy == "next" and behind_proxy.kind != "apache":
        pytest.skip("the broker does not serve KIP-848 yet")

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

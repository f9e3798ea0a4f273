"""Members of a group that know what they have processed, and watch what the group commits."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from barnabas_client import Consumer, RebalanceListener, TopicPartition
from barnabas_client.admin import Admin
from barnabas_client.admin.group_offsets import Committed
from barnabas_client.admin.outcome import Outcome
from barnabas_client.errors import BarnabasError
from tests.client.attack.histories import SETTINGS

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

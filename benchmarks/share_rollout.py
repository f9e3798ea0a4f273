"""A rolling deployment of a share group: how long until every member works, and who waits?

    python -m benchmarks.share_rollout [--members 300] [--partitions 6] [--batch 30]

A broker of its own, and that many `ShareConsumer`s of our client in one process, each with its own
connections, heartbeats and fetches, which accept whatever they get while a producer appends at a
steady rate. First they join a batch at a time, every second; then they are replaced likewise: the
old ones leave, as many new ones join. Told are the times from the end of each phase until every
member has a partition and all partitions have as many members, and the longest time in which nobody
got a record of some partition: that is the pause. In the end every record has been delivered.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path

from barnabas_client import Admin, Producer, ShareConsumer, TopicPartition
from tests.client.consumer.group.readers import create_topic
from tests.interop.share_brokers import configure
from tests.support.barnabas_process import BarnabasProcess

GROUP, TOPIC = "rollout", "jobs"
STEP_SECONDS = 0.02
SETTLED_SECONDS = 60


class Member:
    """One share consumer, until it is told to leave."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._stop = asyncio.Event()
        self.consumer = ShareConsumer(
            fleet.bootstrap, group_id=GROUP, default_api_timeout_ms=SETTLED_SECONDS * 1000
        )
        self._task = asyncio.create_task(self._run())

    @property
    def failure(self) -> BaseException | None:
        """Why it has ended, if it has failed."""
        return self._task.exception() if self._task.done() else None

    async def leave(self) -> None:
        """Let it accept what it has, and go."""
        self._stop.set()
        await self._task

    async def _run(self) -> None:
        async with self.consumer as consumer:
            consumer.subscribe([TOPIC])
            while not self._stop.is_set():
                for record in await consumer.poll(timeout_ms=500):
                    self._fleet.took(record.partition, record.offset)


class Fleet:
    """All members, and what they were delivered."""

    def __init__(self, bootstrap: str, partition_count: int) -> None:
        self.bootstrap = bootstrap
        self.partition_count = partition_count
        self.members: list[Member] = []
        self.seen: Counter[tuple[int, int]] = Counter()
        self._last_seconds: dict[int, float] = {}
        self.silence_seconds = 0.0
        self._has_come = asyncio.Event()

    def took(self, partition: int, offset: int) -> None:
        """Somebody has a record."""
        self.seen[partition, offset] += 1
        now = time.perf_counter()
        silence = now - self._last_seconds.get(partition, now)
        self.silence_seconds = max(self.silence_seconds, silence)
        self._last_seconds[partition] = now
        self._has_come.set()

    async def delivered(self, count: int) -> None:
        """Wait until so many records have been delivered. Raises: TimeoutError."""
        async with asyncio.timeout(SETTLED_SECONDS):
            while len(self.seen) < count:
                self._has_come.clear()
                await self._has_come.wait()

    @property
    def is_whole(self) -> bool:
        """Whether every member has its share."""
        counts = Counter[TopicPartition]()
        for member in self.members:
            assignment = member.consumer.assignment()
            if not assignment:
                return False
            counts.update(assignment)
        spread = max(counts.values()) - min(counts.values())
        return len(counts) == self.partition_count and spread <= 1

    async def settled(self, name: str) -> None:
        """Tell how long it takes until every member has its share."""
        started = time.perf_counter()
        while not self.is_whole:
            failures = [member.failure for member in self.members if member.failure]
            if failures:
                raise failures[0]
            if time.perf_counter() - started > SETTLED_SECONDS:
                raise TimeoutError(f"{name}: not all have a partition")
            await asyncio.sleep(STEP_SECONDS)
        took = time.perf_counter() - started
        print(
            f"{name}: all have their share {took:.1f} s later;"
            f" no partition stood still for more than {self.silence_seconds:.1f} s",
            flush=True,
        )
        self.silence_seconds = 0.0

    def add(self, count: int) -> None:
        """Let so many join."""
        self.members += [Member(self) for _ in range(count)]

    async def replace(self, count: int) -> None:
        """Replace the members that are oldest."""
        old, self.members = self.members[:count], self.members[count:]
        self.add(len(old))
        await asyncio.gather(*(member.leave() for member in old))


class Load:
    """A producer that appends so many records a second, to one partition after the other."""

    def __init__(self, bootstrap: str, partition_count: int, rate: int) -> None:
        self._bootstrap = bootstrap
        self._partition_count = partition_count
        self._rate = rate
        self._stop = asyncio.Event()
        self.sent_count = 0

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        async with Producer(
            self._bootstrap, linger_ms=10, default_api_timeout_ms=60_000
        ) as producer:
            began = time.perf_counter()
            while not self._stop.is_set():
                due = int((time.perf_counter() - began) * self._rate)
                while self.sent_count < due:
                    partition = self.sent_count % self._partition_count
                    producer.send(TOPIC, b"." * 100, partition=partition)
                    self.sent_count += 1
                await asyncio.sleep(STEP_SECONDS)
            await producer.flush()


async def roll_out(broker: BarnabasProcess, given: argparse.Namespace) -> None:
    """Join, replace all, and see that nothing is missing."""
    await create_topic(broker.bootstrap, TOPIC, given.partitions)
    async with Admin(broker.bootstrap, default_api_timeout_ms=60_000) as admin:
        await configure(admin, GROUP, share_auto_offset_reset="earliest")
    fleet = Fleet(broker.bootstrap, given.partitions)
    load = Load(broker.bootstrap, given.partitions, given.rate)
    loading = asyncio.create_task(load.run())
    for number in range(0, given.members, given.batch):
        fleet.add(min(given.batch, given.members - number))
        await asyncio.sleep(1)
    await fleet.settled(f"{given.members} members join, {given.batch} a second")
    cpu_seconds, began = broker.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(10)
    cpu = (broker.cpu_seconds() - cpu_seconds) / (time.perf_counter() - began)
    print(f"while nothing changes: {cpu:.0%} of a core for {given.rate} records/s", flush=True)
    fleet.silence_seconds = 0.0
    began = time.perf_counter()
    for number in range(0, given.members, given.batch):
        await fleet.replace(min(given.batch, given.members - number))
        await asyncio.sleep(1)
    took = time.perf_counter() - began
    await fleet.settled(f"all replaced, {given.batch} at a time, within {took:.0f} s")
    load.stop()
    await loading
    await fleet.delivered(load.sent_count)
    again = sum(count - 1 for count in fleet.seen.values())
    print(f"{len(fleet.seen)} of {load.sent_count} records delivered, {again} of them again")
    await asyncio.gather(*(member.leave() for member in fleet.members))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=300)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--batch", type=int, default=30)
    parser.add_argument("--rate", type=int, default=600)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        properties = {"group.share.max.size": str(2 * given.members)}
        broker = BarnabasProcess(Path(directory), properties=properties)
        broker.start()
        try:
            asyncio.run(roll_out(broker, given))
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

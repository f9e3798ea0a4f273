"""A rolling deployment of a consumer group (KIP-848): how long until all partitions are read again?

    python -m benchmarks.group_rollout [--members 1000] [--partitions 2000] [--batch 50]

A broker of its own, and members that speak the protocol alone: one connection each, heartbeats at
the interval that the broker gives, and at once after a change, as Java's client does. First all
join. Then the members are replaced a batch at a time, every second: the old ones leave, as many new
ones join. Told are the times from the end of each phase until every partition is with a member that
knows it, and in the meantime how many partitions were without one at most. That is the pause: a
member that nobody takes anything from goes on all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from barnabas_client import Admin
from barnabas_protocol.api import ApiKey
from barnabas_protocol.codec import decode, encode
from barnabas_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.client.consumer.group.readers import create_topic
from tests.support.barnabas_process import BarnabasProcess

GROUP, TOPIC = "rollout", "work"
VERSION = 1


class Member:
    """One consumer, as far as its group knows it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.member_id = str(uuid.UUID(int=random.getrandbits(128), version=4))
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self._correlation_id = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self.fleet.ended)

    async def stop(self) -> None:
        """Leave."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        self.fleet.moved(self, {})
        await self._send(member_epoch=-1)
        self._writer.close()

    async def _run(self) -> None:
        host, port = self.fleet.address
        self._reader, self._writer = await asyncio.open_connection(host, port)
        await asyncio.sleep(random.random() * 0.2)
        tells = True
        while True:
            response = await self._beat(tells)
            tells = response.assignment is not None
            if not tells:
                await asyncio.sleep(response.heartbeat_interval_ms / 1000)

    async def _beat(self, tells: bool) -> ConsumerGroupHeartbeatResponse:
        if self.epoch == 0:
            response = await self._send(
                rebalance_timeout_ms=60_000, subscribed_topic_names=[TOPIC], topic_partitions=[]
            )
        else:
            owned = [
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self.owned.items()
            ]
            response = await self._send(topic_partitions=owned if tells else None)
        if response.error_code in (14, 15):
            # What was sent may have been taken: a full heartbeat follows.
            await asyncio.sleep(0.1)
            return await self._beat(True)
        if response.error_code:
            raise RuntimeError(f"{response.error_code}: {response.error_message}")
        self.epoch = response.member_epoch
        if response.assignment is not None:
            given = {
                each.topic_id: each.partitions for each in response.assignment.topic_partitions
            }
            self.fleet.moved(self, given)
            self.owned = given
        return response

    async def _send(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            **{"member_epoch": self.epoch, **fields},  # type: ignore[arg-type]
        )
        self._correlation_id += 1
        header = struct.pack(
            ">hhih", ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, self._correlation_id, -1
        )
        body = header + b"\0" + encode(request, VERSION)
        self._writer.write(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        data = await self._reader.readexactly(size)
        response, _ = decode(ConsumerGroupHeartbeatResponse, data, VERSION, 5)
        return response


class Fleet:
    """All members, and which partitions somebody has."""

    def __init__(self, address: tuple[str, int], partition_count: int) -> None:
        self.address = address
        self.partition_count = partition_count
        self.members: list[Member] = []
        self.owners: dict[int, Member] = {}
        self.unowned_max = 0
        self.moved_count = 0
        self.failure: BaseException | None = None
        self._changed = asyncio.Event()

    def moved(self, member: Member, given: dict[bytes, list[int]]) -> None:
        """A member knows that it has other partitions now."""
        before = set(_indexes(member.owned))
        after = set(_indexes(given))
        for index in before - after:
            if self.owners.get(index) is member:
                del self.owners[index]
        for index in after - before:
            other = self.owners.get(index)
            assert other is None, f"{index} has two owners: {other}, {member}"
            self.owners[index] = member
            self.moved_count += 1
        self.unowned_max = max(self.unowned_max, self.partition_count - len(self.owners))
        self._changed.set()

    def ended(self, task: asyncio.Task[None]) -> None:
        """Fail as a whole if a member does."""
        if not task.cancelled():
            self.failure = task.exception()
            self._changed.set()

    @property
    def is_whole(self) -> bool:
        sizes = [len(set(_indexes(member.owned))) for member in self.members]
        return len(self.owners) == self.partition_count and max(sizes) - min(sizes) <= 1

    async def settled(self, name: str) -> None:
        """Tell how long it takes until all have their share."""
        started = time.perf_counter()
        while not self.is_whole:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 60)
            if self.failure is not None:
                raise self.failure
        took = time.perf_counter() - started
        print(
            f"{name}: all shared out {took:.1f} s later; {self.moved_count} partitions moved, "
            f"{self.unowned_max} without an owner at most"
        )
        self.unowned_max = self.moved_count = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            member = Member(self)
            self.members.append(member)
            member.start()

    async def replace(self, count: int) -> None:
        """Replace the members that are oldest."""
        old, self.members = self.members[:count], self.members[count:]
        await asyncio.gather(*(member.stop() for member in old))
        self.add(len(old))


def _indexes(owned: dict[bytes, list[int]]) -> Iterator[int]:
    for partitions in owned.values():
        yield from partitions


async def roll_out(bootstrap: str, members: int, partitions: int, batch: int) -> None:
    host, _, port = bootstrap.rpartition(":")
    await create_topic(bootstrap, TOPIC, partitions)
    async with Admin(bootstrap) as admin:
        await admin.groups.describe([GROUP])  # has the coordinator found, and its topic made
    fleet = Fleet((host, int(port)), partitions)
    fleet.add(members)
    await asyncio.sleep(1)
    await fleet.settled(f"{members} members have joined")
    started = time.perf_counter()
    for number in range(0, members, batch):
        await fleet.replace(min(batch, members - number))
        await asyncio.sleep(1)
    took = time.perf_counter() - started
    await fleet.settled(f"all replaced, {batch} at a time, within {took:.0f} s")
    await fleet.replace(1)
    await fleet.settled("one more replaced")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--heartbeat-ms", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = BarnabasProcess(
            Path(directory),
            properties={
                "group.consumer.min.heartbeat.interval.ms": str(given.heartbeat_ms),
                "group.consumer.heartbeat.interval.ms": str(given.heartbeat_ms),
            },
        )
        broker.start()
        try:
            asyncio.run(roll_out(broker.bootstrap, given.members, given.partitions, given.batch))
        finally:
            broker.stop()


if __name__ == "__main__":
    main()

"""What finding out lag costs: a record is looked up once, so many a scrape, shared by scrapes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.coordinator.group import group_lag
from barnabas_broker.coordinator.group.group_lag import GroupLag
from barnabas_broker.server import Server
from barnabas_client import Producer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.records import record_time
from barnabas_protocol.records.batch import Buffer
from tests.support.in_process_broker import running_broker
from tests.support.simulated_clock import SimulatedClock

FIRST_MS = 1_700_000_000_000
PLACES = [TopicPartition("orders", number) for number in range(6)]


class World:
    """A broker with ten records in each partition, a second apart, and a group."""

    def __init__(self, server: Server, admin: Admin) -> None:
        self.admin = admin
        self.clock = SimulatedClock(wall_ms=FIRST_MS + 60_000)
        self.lag = GroupLag(server.groups, server.replicas, server.connections.peers, self.clock)
        self.lookups: list[tuple[TopicPartition, int]] = []
        for place, partition in server.replicas.partitions.items():
            if place.topic == "orders":
                self._watch(place, partition.log)

    def _watch(self, place: TopicPartition, log: Any) -> None:
        read = log.read

        async def watched(offset: int, *arguments: Any, **options: Any) -> Any:
            self.lookups.append((place, offset))
            return await read(offset, *arguments, **options)

        log.read = watched

    async def commit(self, group: str, *offsets: int) -> None:
        committed = {
            place: OffsetAndMetadata(offset) for place, offset in zip(PLACES, offsets, strict=False)
        }
        (await self.admin.group_offsets.alter(group, committed)).unwrap()

    async def seconds(self) -> list[float | None]:
        """After a new scrape, of each partition of each group."""
        self.clock.advance(group_lag.FRESH_MS)
        await self.lag.refresh()
        return [one.seconds for one in self.lag.read()]


def in_world(directory: Path, story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_broker(directory) as server:
            bootstrap = f"127.0.0.1:{server.port}"
            async with Admin(bootstrap) as admin, Producer(bootstrap, linger_ms=50) as producer:
                topic = NewTopic(name="orders", partition_count=6, replication_factor=1)
                (await admin.topics.create([topic])).unwrap()
                for place in PLACES:
                    for number in range(10):
                        producer.send(
                            place.topic,
                            b"",
                            partition=place.partition,
                            timestamp_ms=FIRST_MS + 1000 * number,
                        )
                await producer.flush()
                await story(World(server, admin))

    asyncio.run(run())


def test_each_record_is_looked_up_once_for_all_groups_that_stand_there(tmp_path: Path) -> None:
    """And none where nothing is left to read: a group that keeps up costs no reads."""

    async def story(world: World) -> None:
        await world.commit("a", 0, 4, 10)
        await world.commit("b", 0, 4, 10)
        assert await world.seconds() == [61, 57, 0] * 2
        assert await world.seconds() == [62, 58, 0] * 2
        assert sorted(world.lookups) == [(PLACES[0], 0), (PLACES[1], 4)]
        await world.commit("a", 1)
        assert sorted(value or 0 for value in await world.seconds()) == [0, 0, 59, 59, 62, 63]
        assert len(world.lookups) == 3

    in_world(tmp_path, story)


def test_a_scrape_looks_up_so_many_and_the_next_ones_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand lagging partitions must not make one scrape slow; absent is not 0 meanwhile."""
    monkeypatch.setattr(group_lag, "LOOKUPS_MAX", 2)

    async def story(world: World) -> None:
        await world.commit("a", *range(6))
        assert sum(value is None for value in await world.seconds()) == 4
        assert sum(value is None for value in await world.seconds()) == 2
        assert None not in await world.seconds()
        assert len(world.lookups) == 6

    in_world(tmp_path, story)


def test_scrapes_at_the_same_time_share_what_is_found_out(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.commit("a", 0)
        await asyncio.gather(*(world.lag.refresh() for _ in range(3)))
        await world.lag.refresh()
        assert len(world.lookups) == 1

    in_world(tmp_path, story)


def test_records_are_told_at_once_and_seconds_after_they_were_found_out(tmp_path: Path) -> None:
    """Lag in records costs nothing where the broker leads; without a look-up there is no age."""

    async def story(world: World) -> None:
        await world.commit("a", 3)
        (before,) = world.lag.read()
        assert (before.records, before.seconds) == (7, None)
        assert await world.seconds() == [58]

    in_world(tmp_path, story)


def test_a_large_batch_is_read_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have to be decompressed; requests must not wait for that."""
    monkeypatch.setattr(group_lag, "LARGE_BATCH_BYTES", 10)
    loop_thread = threading.get_ident()
    threads: list[int] = []

    def timestamp_at(data: Buffer, offset: int) -> int | None:
        threads.append(threading.get_ident())
        return record_time.timestamp_at(data, offset)

    monkeypatch.setattr(group_lag, "timestamp_at", timestamp_at)

    async def story(world: World) -> None:
        await world.commit("a", 3)
        assert await world.seconds() == [58]
        assert len(threads) == 1
        assert loop_thread not in threads

    in_world(tmp_path, story)

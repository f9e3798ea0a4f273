"""Live tails: what a follower sees and what is counted (CON-136, CON-173)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import FetchedBatch
from barnabas_client.errors import ClosedError
from barnabas_client.producer.producer import Producer
from barnabas_console.records.decoding import DecodingRules
from barnabas_console.records.filters import RecordFilter, parse_filter
from barnabas_console.records.masking import NO_MASK
from barnabas_console.records.reading_budget import TAILS_MAX, NoSeatError
from barnabas_console.records.topic_reading import Reader
from barnabas_console.records.topic_tails import (
    SHOWN_PER_SECOND,
    WAITING_BYTES_MAX,
    Follower,
    TailPart,
    TopicTails,
)
from barnabas_console.viewer import Viewer
from barnabas_protocol.records.batch import read_header
from barnabas_protocol.records.record import Record, encode_batch
from tests.console.records.readings import CLOCK, Written, budget, create_topic, viewer_of, write
from tests.support.barnabas_cluster import BarnabasCluster

NO_FILTER = RecordFilter()


def batch(first: int, count: int, *, value: bytes = b"", partition: int = 0) -> FetchedBatch:
    """Records with their offset as value."""
    records = [Record(first + n, 0, None, b"%d" % (first + n) + value) for n in range(count)]
    data = encode_batch(records, base_offset=first)
    return FetchedBatch(
        topic="t", partition=partition, header=read_header(data), data=data, first_offset=first
    )


def follower(record_filter: RecordFilter = NO_FILTER) -> Follower:
    return Follower(DecodingRules().for_topic("t"), NO_MASK, record_filter, CLOCK, None)


def follow(
    tails: TopicTails, reader: Reader, topic: str, identity: str = "me"
) -> AbstractAsyncContextManager[Follower]:
    return tails.follow(
        reader,
        identity,
        topic,
        is_committed_only=False,
        decoding=DecodingRules().for_topic(topic),
        mask=NO_MASK,
        record_filter=NO_FILTER,
    )


async def first_part(one: Follower) -> TailPart:
    async for part in one.parts():
        return part
    raise AssertionError("no part")


def test_newest_records_are_shown_and_the_others_counted() -> None:
    """ "200 of 12,430/s": in order, and each is shown or skipped."""

    async def run() -> None:
        one = follower()
        for first in range(0, 1_000, 100):
            one.offer(batch(first, 100))
        part = await first_part(one)
        assert [row.offset for row in part.rows] == list(range(1_000 - SHOWN_PER_SECOND, 1_000))
        assert (part.came_count, part.skipped_count) == (1_000, 1_000 - SHOWN_PER_SECOND)

    asyncio.run(run())


def test_slow_browser_misses_records_that_are_counted() -> None:
    """CON-172: a reader that stops costs a bounded amount of memory."""

    async def run() -> None:
        one = follower()
        large = b"x" * (WAITING_BYTES_MAX // 8)
        for offset in range(40):
            one.offer(batch(offset, 1, value=large))
        part = await first_part(one)
        assert part.came_count == 40
        assert part.missed_count + len(part.rows) == 40
        assert 0 < len(part.rows) <= 8

    asyncio.run(run())


def test_filter_looks_at_each_record() -> None:
    async def run() -> None:
        one = follower(parse_filter("value~7", 0))
        one.offer(batch(0, 100))
        part = await first_part(one)
        assert [row.offset for row in part.rows] == [n for n in range(100) if "7" in str(n)]
        assert part.filtered_count + len(part.rows) == part.came_count == 100

    asyncio.run(run())


@pytest.mark.parametrize("record_filter", [NO_FILTER, parse_filter("value~7", 0)], ids=str)
def test_each_record_of_a_damaged_batch_is_counted_once(record_filter: RecordFilter) -> None:
    """Those before the damage are shown, skipped or filtered; the others are missed."""

    async def run() -> None:
        one = follower(record_filter)
        whole = batch(0, 300)
        one.offer(replace(whole, data=bytes(whole.data[:-1]) + b"\xff"))
        part = await first_part(one)
        told = part.skipped_count + part.filtered_count + part.missed_count
        assert len(part.rows) + told == part.came_count == 300
        assert 0 < part.missed_count < 300

    asyncio.run(run())


@dataclass
class ReaderOf:
    """A viewer whose consumers are changed before they are used, and remembered."""

    viewer: Viewer
    change: Callable[[Consumer], None]
    made: list[Consumer] = field(default_factory=list)

    @property
    def admin(self) -> Admin:
        return self.viewer.admin

    async def consumer(self, **settings: Any) -> Consumer:
        consumer = await self.viewer.consumer(**settings)
        self.change(consumer)
        self.made.append(consumer)
        return consumer

    async def are_all_closed(self) -> bool:
        for consumer in self.made:
            with pytest.raises(ClosedError):
                await consumer.start()
        return True


async def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a bug")


def test_a_tail_that_a_bug_ends_closes_its_consumer(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """The follower hears of it, and the bug reaches the log."""

    async def run() -> None:
        async with viewer_of(bootstrap) as viewer:
            topic = unique("bug")
            await create_topic(viewer, topic, 1)
            reader = ReaderOf(viewer, lambda one: setattr(one, "poll_batches", fail))
            with pytest.raises(RuntimeError, match="a bug"):
                async with follow(TopicTails(budget(), CLOCK), reader, topic) as one:
                    part = await first_part(one)
            assert part.problem is not None and "a bug" in part.problem
            assert await reader.are_all_closed()

    asyncio.run(run())


def test_a_tail_that_cannot_begin_closes_its_consumer(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """Another follower who waits for it begins with a consumer of its own."""

    async def run() -> None:
        async with viewer_of(bootstrap) as viewer:
            topic = unique("begin")
            await create_topic(viewer, topic, 1)
            tails = TopicTails(budget(), CLOCK)
            reader = ReaderOf(viewer, lambda one: setattr(one, "end_offsets", fail))

            async def fails() -> None:
                async with follow(tails, reader, topic):
                    raise AssertionError("it cannot begin")

            results = await asyncio.gather(fails(), fails(), return_exceptions=True)
            assert [str(one) for one in results] == ["a bug", "a bug"]
            assert len(reader.made) == 2 and await reader.are_all_closed()

    asyncio.run(run())


def test_tails_have_seats(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-136: twenty, and each is given back."""

    async def run() -> None:
        seats = budget()
        held = [seats.tail("") for _ in range(TAILS_MAX)]
        for seat in held:
            seat.__enter__()
        tails = TopicTails(seats, CLOCK)
        async with viewer_of(bootstrap) as viewer:
            topic = unique("seats")
            await create_topic(viewer, topic, 1)

            with pytest.raises(NoSeatError, match="20 tails"):
                async with follow(tails, viewer, topic):
                    pass
            held[0].__exit__(None, None, None)
            for _ in range(2):
                async with follow(tails, viewer, topic):
                    pass

    asyncio.run(run())


def test_followers_of_a_topic_share_a_consumer(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """It begins with the first, and ends with the last."""

    async def run() -> None:
        topic = unique("shared")
        tails = TopicTails(budget(), CLOCK)
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 1)
            async with (
                follow(tails, viewer, topic) as first,
                follow(tails, viewer, topic) as second,
            ):
                assert tails.consumer_count == 1
                async with follow(tails, viewer, topic, "another"):
                    assert tails.consumer_count == 2
                await write(bootstrap, topic, [Written(0, 1_000, b"x")])
                for one in (first, second):
                    async with asyncio.timeout(20):
                        part = await first_part(one)
                        while not part.rows:
                            part = await first_part(one)
                    assert [row.value.text for row in part.rows] == ["x"]
            assert tails.consumer_count == 0

    asyncio.run(run())


COUNT = 400


def test_tail_goes_on_without_gap_or_repetition_when_a_leader_is_killed(tmp_path: Path) -> None:
    """CON-173: three brokers, SIGKILL of one that leads partitions, while records are written."""

    async def write_slowly(bootstrap: str, topic: str, halfway: asyncio.Event) -> None:
        async with Producer(bootstrap) as producer:
            for number in range(COUNT):
                await producer.send(topic, b"%d" % number, partition=number % 6)
                if number == COUNT // 2:
                    halfway.set()

    async def run(cluster: BarnabasCluster) -> None:
        topic = "followed"
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            await cluster.create_topics(
                admin, NewTopic(name=topic, partition_count=6, replication_factor=3)
            )
        tails = TopicTails(budget(), CLOCK)
        seen: dict[int, list[int]] = {}
        halfway = asyncio.Event()
        async with (
            viewer_of(cluster.bootstrap) as viewer,
            tails.follow(
                viewer,
                "me",
                topic,
                is_committed_only=False,
                decoding=DecodingRules().for_topic(topic),
                mask=NO_MASK,
                record_filter=NO_FILTER,
            ) as one,
            asyncio.timeout(100),
        ):
            writing = asyncio.ensure_future(write_slowly(cluster.bootstrap, topic, halfway))
            is_killed = False
            async for part in one.parts():
                assert part.problem is None
                assert not part.missed_count and not part.skipped_count
                for row in part.rows:
                    seen.setdefault(row.partition, []).append(row.offset)
                if halfway.is_set() and not is_killed:
                    is_killed = True
                    await asyncio.to_thread(cluster.brokers[2].kill)
                if writing.done() and sum(map(len, seen.values())) >= COUNT:
                    break
            await writing
        assert is_killed
        assert sorted(seen) == list(range(6))
        for offsets in seen.values():
            assert offsets == list(range(len(offsets)))

    with BarnabasCluster(tmp_path) as cluster:
        asyncio.run(run(cluster))

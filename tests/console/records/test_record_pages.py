"""Pages of records on a real broker: exact, merged by time, within bounds (CON-136)."""

import asyncio
import random
from collections.abc import Callable

import pytest

from barnabas_client.errors import NotFoundError
from barnabas_client.producer.producer import Producer
from barnabas_console.records.frontier import Direction
from barnabas_console.records.places import parse_place
from barnabas_console.records.record_page import RecordPage, read_page
from barnabas_console.viewer import Viewer
from tests.console.records.readings import (
    CLOCK,
    Written,
    budget,
    choices,
    create_topic,
    until_settled,
    viewer_of,
    write,
)

SEED = 20_261_126


def model(records: list[Written], direction: Direction) -> list[tuple[int, int]]:
    """The dumb twin: partition and offset of all records in the order in which pages show them."""
    queues: dict[int, list[tuple[int, int]]] = {}
    for record in records:
        queue = queues.setdefault(record.partition, [])
        queue.append((record.timestamp_ms, len(queue)))
    is_backwards = direction is Direction.BACKWARDS
    if is_backwards:
        queues = {partition: queue[::-1] for partition, queue in queues.items()}
    sign = -1 if is_backwards else 1
    order = []
    while any(queues.values()):
        partition = min(
            (one for one, queue in queues.items() if queue),
            key=lambda one: (sign * queues[one][0][0], one),
        )
        order.append((partition, queues[partition].pop(0)[1]))
    return order


async def all_pages(viewer: Viewer, topic: str, start: str, limit: int) -> list[RecordPage]:
    """Pages until the end, each from where the one before says."""
    pages, place = [], parse_place(start, 0)
    direction = place.direction
    while True:
        page = await read_page(viewer, choices(topic, place), limit, budget(), CLOCK)
        pages.append(page)
        assert not page.problems
        if page.is_end:
            return pages
        following = page.older if direction is Direction.BACKWARDS else page.newer
        assert following is not None
        place = parse_place(following, 0)


@pytest.mark.parametrize("start", ["newest", "oldest"])
@pytest.mark.parametrize("limit", [1, 7, 60])
def test_pages_have_each_record_once_in_order_of_time(
    bootstrap: str, unique: Callable[[str], str], start: str, limit: int
) -> None:
    """Also where times of a partition go back, and one partition is empty."""
    rng = random.Random(SEED)
    records = [
        Written(rng.choice([0, 0, 0, 1, 3]), 1_000 + number * 10 + rng.choice([0, 0, 55]), b"v")
        for number in range(120)
    ]

    async def run() -> None:
        topic = unique("paged")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 4)
            await write(bootstrap, topic, records)
            pages = await all_pages(viewer, topic, start, limit)
        rows = [(row["partition"], row["offset"]) for page in pages for row in page.rows]
        assert rows == model(records, pages[0].direction), f"seed {SEED}"
        assert all(len(page.rows) <= limit for page in pages)

    asyncio.run(run())


def test_page_goes_over_gaps_that_transactions_leave(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """With committed records alone, 2,000 aborted ones between two others are a hole."""

    async def run() -> None:
        topic = unique("holes")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 1)
            await write(bootstrap, topic, [Written(0, 1_000, b"first")])
            async with Producer(bootstrap, transactional_id=topic) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                for _ in range(2_000):
                    producer.send(topic, b"aborted", partition=0, timestamp_ms=2_000)
                    await producer.drain()
                await producer.flush()
                await producer.abort_transaction()
            await write(bootstrap, topic, [Written(0, 3_000, b"last")])
            await until_settled(viewer, topic)
            committed = await read_page(
                viewer, choices(topic, is_committed_only=True), 10, budget(), CLOCK
            )
            everything = await read_page(viewer, choices(topic), 10, budget(), CLOCK)
        assert [row["value"] for row in committed.rows] == ["last", "first"]
        assert committed.is_end
        assert [row["value"] for row in everything.rows] == ["last", *["aborted"] * 9]
        assert everything.rows[1]["is_transactional"]
        assert everything.rows[1]["offset"] == 2_000
        assert not everything.is_end

    asyncio.run(run())


def test_page_of_large_records_is_read_in_small_windows_and_shown_cut(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """Values are cut at 4 KiB; windows that hold more than 4 MiB are read in parts."""

    async def run() -> None:
        topic = unique("large")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 1)
            records = [
                Written(0, 1_000 + number, b"%d " % number + b"x" * 300_000) for number in range(60)
            ]
            await write(bootstrap, topic, records)
            page = await read_page(viewer, choices(topic), 50, budget(), CLOCK)
            last = await read_page(
                viewer, choices(topic, parse_place(page.older or "", 0)), 50, budget(), CLOCK
            )
        shown = [row["value"].split()[0] for row in page.rows + last.rows]
        assert shown == [str(number) for number in reversed(range(60))]
        assert all(len(row["value"]) == 4096 and row["value_is_cut"] for row in page.rows)
        assert page.rows[0]["value_bytes"] == 300_003

    asyncio.run(run())


def test_pages_begin_where_they_are_told(bootstrap: str, unique: Callable[[str], str]) -> None:
    """CON-113: offset, time, partition; and back from there."""

    async def run() -> None:
        topic = unique("sought")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 2)
            await write(bootstrap, topic, [Written(n % 2, 1_000 + n, b"%d" % n) for n in range(20)])

            async def values(at: str, **chosen: object) -> list[str]:
                picked = choices(topic, parse_place(at, 0), **chosen)  # type: ignore[arg-type]
                page = await read_page(viewer, picked, 3, budget(), CLOCK)
                return [row["value"] for row in page.rows]

            assert await values("offset:4") == ["8", "9", "10"]
            assert await values("offset:-1") == ["18", "19"]
            assert await values("offset:999") == []
            assert await values("time:1970-01-01T00:00:01.005Z") == ["5", "6", "7"]
            backwards = {"direction": Direction.BACKWARDS}
            assert await values("time:1970-01-01T00:00:01.005Z", **backwards) == ["4", "3", "2"]
            assert await values("newest", partitions=frozenset({1})) == ["19", "17", "15"]
            page = await read_page(viewer, choices(topic), 3, budget(), CLOCK)
            assert await values(page.newer or "") == []
            await write(bootstrap, topic, [Written(0, 5_000, b"new")])
            assert await values(page.newer or "") == ["new"]
            with pytest.raises(ValueError, match="no partition 7"):
                await values("newest", partitions=frozenset({7}))
            with pytest.raises(ValueError, match="partitions have changed"):
                await values("older:1.2.3")
            with pytest.raises(NotFoundError):
                await read_page(viewer, choices(topic + "-none"), 3, budget(), CLOCK)

    asyncio.run(run())


def test_empty_topic_is_read_whole(bootstrap: str, unique: Callable[[str], str]) -> None:
    async def run() -> None:
        topic = unique("empty")
        async with viewer_of(bootstrap) as viewer:
            await create_topic(viewer, topic, 3)
            page = await read_page(viewer, choices(topic), 50, budget(), CLOCK)
        assert (page.rows, page.is_end, page.older) == ([], True, None)
        assert [one["partition"] for one in page.ranges] == [0, 1, 2]

    asyncio.run(run())

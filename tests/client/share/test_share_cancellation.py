"""Every public coroutine of the share consumer, cancelled at every one of its awaits."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barnabas_client.share.share_consumer import ShareConsumer
from tests.client.share.model_share_cluster import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ModelShareCluster,
)
from tests.simulation.client.cancellations import Counted
from tests.support.virtual_loop import run_virtual

Step = Callable[[ShareConsumer], Awaitable[Any]]
LIMIT_SECONDS = 60


async def nothing(consumer: ShareConsumer) -> None:
    """It has not polled yet."""


async def read(consumer: ShareConsumer) -> None:
    """It has records in its hands, and more of the same fetch behind them."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not await consumer.poll(timeout_ms=500, max_records=1):
            pass


async def poll(consumer: ShareConsumer) -> None:
    for _ in range(4):
        await consumer.poll(timeout_ms=700, max_records=2)


async def wait_long(consumer: ShareConsumer) -> None:
    await consumer.commit()
    for _ in range(5):
        await consumer.poll(timeout_ms=300)


async def iterate(consumer: ShareConsumer) -> None:
    async for record in consumer:
        if record.offset == 3:
            break


async def commit(consumer: ShareConsumer) -> None:
    await consumer.commit()


async def unsubscribe(consumer: ShareConsumer) -> None:
    await consumer.unsubscribe()


async def close(consumer: ShareConsumer) -> None:
    await consumer.close()


CASES: dict[str, tuple[Step, Step]] = {
    "poll, joining": (nothing, poll),
    "poll, reading": (read, poll),
    "poll, waiting": (read, wait_long),
    "async for": (nothing, iterate),
    "commit": (read, commit),
    "unsubscribe": (read, unsubscribe),
    "close": (read, close),
}


def run(name: str, at: int, *, is_late: bool = False) -> int:
    """Run a case with a cancellation at one suspension (none for 0); returns how many there are."""
    prepare, call = CASES[name]
    counts: list[int] = []

    async def work() -> None:
        model = ModelShareCluster(2, delivery_limit=1 << 14)
        model.move(1, 2)
        for number in range(2):
            model[number].append(b"a", b"b", None, b"d")
        consumer = model.consumer()
        await consumer.start()
        await prepare(consumer)
        counted = Counted(call(consumer), at, is_late=is_late)  # type: ignore[arg-type]
        task = asyncio.get_running_loop().create_task(counted)
        counted.task = task
        await asyncio.wait([task], timeout=LIMIT_SECONDS)
        assert task.done(), f"the call does not end: {task.get_stack()}"
        if not task.cancelled():
            task.result()
        counts.append(counted.count)
        async with asyncio.timeout(LIMIT_SECONDS):
            if call is not close:
                await drain(model, consumer)
            await consumer.close()
        assert not model.members, "left in the group"
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, f"left behind: {others}"

    run_virtual(work())
    return counts[0]


async def drain(model: ModelShareCluster, consumer: ShareConsumer) -> None:
    """The consumer works: everything is final in the end, once."""
    consumer.subscribe("t")
    while any(state < ACKNOWLEDGED for number in range(2) for state in model.states(number)):
        await consumer.poll(timeout_ms=1000)
    for number in range(2):
        assert model.states(number) == [ACKNOWLEDGED, ACKNOWLEDGED, ARCHIVED, ACKNOWLEDGED]
        assert ACQUIRED not in model.states(number)
        assert max(model[number].accepted) == 1


@pytest.mark.parametrize("name", CASES)
def test_a_call_can_be_cancelled_at_every_await(name: str) -> None:
    """SHR-41: afterwards the consumer works and closes, and nothing was lost or is left."""
    count = run(name, 0)
    assert count
    for at in range(1, count + 1):
        for is_late in (False, True):
            run(name, at, is_late=is_late)

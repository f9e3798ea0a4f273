"""Consumers on one broker, and what they read."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord
from tests.client.consumer.raw_topic import RawTopic, raw_topic

DEADLINE_SECONDS = 30


def run_on(bootstrap: str, body: Callable[[RawTopic], Awaitable[None]]) -> None:
    """Run with a topic maker; a task that is left behind fails the test."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS), raw_topic(bootstrap) as topics:
            await body(topics)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others

    asyncio.run(run())


def reader(bootstrap: str, **settings: Any) -> Consumer:
    """From the beginning; a short wait at the broker lets a seek take effect soon."""
    return Consumer(
        bootstrap, **{"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20, **settings}
    )


async def drain(consumer: Consumer, count: int, **options: Any) -> list[ConsumerRecord]:
    """Poll until so many records have come."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll(**options)
    return found

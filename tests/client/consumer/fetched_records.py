"""What a fetcher has handed out."""

import asyncio
from typing import Any

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.consumer.records import ConsumerRecord


async def drain(consumer: Consumer, count: int, **options: Any) -> list[ConsumerRecord]:
    """Poll until so many records have come."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.poll(**options)
    return records


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]

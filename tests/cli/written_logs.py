"""Logs that a broker has written, for commands that read them."""

import asyncio
from pathlib import Path

from tests.broker.broker_requests import (
    batch,
    produce_request,
    produced,
    topic_id_of,
)
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient


def written(directory: Path) -> bytes:
    """A stopped broker's data with one record; returns the topic's id."""

    async def run() -> bytes:
        async with (
            running_broker(directory) as server,
            await RawClient.connect(server.port) as client,
        ):
            topic_id = await topic_id_of(client)
            await produced(client, 9, produce_request(batch(b"carried over")))
            return topic_id

    return asyncio.run(run())

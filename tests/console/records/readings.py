"""Topics with known records on a real broker, and readings of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from barnabas_client.admin.values.partitions import OffsetSpec
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.env import SystemClock
from barnabas_client.producer.producer import Producer
from barnabas_console.cluster_connection import ClusterConnection
from barnabas_console.records.decoding import DecodingRules
from barnabas_console.records.frontier import Direction
from barnabas_console.records.masking import NO_MASK, TopicMask
from barnabas_console.records.places import NEWEST, Place
from barnabas_console.records.reading_budget import ReadingBudget
from barnabas_console.records.topic_reading import ReadingChoices
from barnabas_console.viewer import Viewer
from barnabas_protocol.ids import TopicPartition

CLOCK = SystemClock()


class Written(NamedTuple):
    """A record that is to be written."""

    partition: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None


@asynccontextmanager
async def viewer_of(bootstrap: str) -> AsyncIterator[Viewer]:
    """A viewer whose admin client is started."""
    connection = ClusterConnection(
        bootstrap_servers=bootstrap, principal="User:ANONYMOUS", timeout_ms=10_000
    )
    viewer = Viewer(connection, CLOCK)
    try:
        await viewer.ready()
        yield viewer
    finally:
        await viewer.close()


async def create_topic(viewer: Viewer, topic: str, partition_count: int, **configs: str) -> None:
    """Create a topic and wait until it has leaders."""
    new = NewTopic(
        name=topic,
        partition_count=partition_count,
        # Times of tests lie long ago.
        configs={"retention.ms": "-1"}
        | {name.replace("_", "."): value for name, value in configs.items()},
    )
    (await viewer.admin.topics.create([new])).unwrap()
    async with asyncio.timeout(20):
        while True:
            found = await viewer.admin.topics.describe([topic])
            partitions = found.successes[topic].partitions if topic in found.successes else {}
            if len(partitions) == partition_count and all(
                one.leader_id is not None and one.leader_id >= 0 for one in partitions.values()
            ):
                return
            await asyncio.sleep(0.02)


async def write(
    bootstrap: str, topic: str, records: Sequence[Written], *, compression: str = "none"
) -> None:
    """Write records in their order."""
    async with Producer(bootstrap, compression_type=compression, linger_ms=1) as producer:
        for record in records:
            producer.send(
                topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            await producer.drain()
        await producer.flush()


async def until_settled(viewer: Viewer, topic: str) -> None:
    """Wait until no transaction is open in partition 0.

    A coordinator answers before its markers are written, and committed readers wait for these.
    """
    wanted = {TopicPartition(topic, 0): OffsetSpec.LATEST}
    async with asyncio.timeout(20):
        while True:
            end = (await viewer.admin.partitions.list_offsets(wanted)).unwrap()
            stable = (
                await viewer.admin.partitions.list_offsets(wanted, read_committed=True)
            ).unwrap()
            if end == stable:
                return
            await asyncio.sleep(0.02)


def choices(
    topic: str,
    place: Place = NEWEST,
    *,
    direction: Direction | None = None,
    partitions: frozenset[int] | None = None,
    is_committed_only: bool = False,
    value_format: str = "auto",
    mask: TopicMask = NO_MASK,
) -> ReadingChoices:
    """What somebody chose, from the newest unless told otherwise."""
    return ReadingChoices(
        topic=topic,
        partitions=partitions,
        place=place,
        direction=direction or place.direction,
        is_committed_only=is_committed_only,
        decoding=DecodingRules().for_topic(topic, value=value_format),
        mask=mask,
    )


def budget() -> ReadingBudget:
    """A budget of its own."""
    return ReadingBudget(CLOCK)

"""Records for tests of pipelines: written and read back with the asyncio client, at once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas_client import Consumer, ConsumerRecord, Producer, RecordMetadata, TopicPartition
from barnabas_client.admin import Admin, NewTopic, OffsetSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordToSend:
    """One record; what is left out is the producer's default."""

    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def create_topic(
    bootstrap: str, name: str, partition_count: int, configs: Mapping[str, str | None]
) -> None:
    """Make a topic on one broker."""

    async def create() -> None:
        async with Admin(bootstrap) as admin:
            topic = NewTopic(
                name=name, partition_count=partition_count, replication_factor=1, configs=configs
            )
            (await admin.topics.create([topic])).unwrap()

    asyncio.run(create())


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic."""

    async def delete() -> None:
        async with Admin(bootstrap) as admin:
            (await admin.topics.delete([name])).unwrap()

    asyncio.run(delete())


def delete_records(bootstrap: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Move the log start offsets, as retention does."""

    async def delete() -> None:
        async with Admin(bootstrap) as admin:
            named = {TopicPartition(*key): offset for key, offset in offsets.items()}
            (await admin.partitions.delete_records(named)).unwrap()

    asyncio.run(delete())


def produce(bootstrap: str, topic: str, records: Iterable[RecordToSend]) -> list[RecordMetadata]:
    """Write the records; all are acknowledged, and told in the order given."""

    async def send() -> list[RecordMetadata]:
        async with Producer(bootstrap) as producer:
            deliveries = []
            for record in records:
                delivery = producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=record.headers,
                )
                deliveries.append(delivery)
                await producer.drain()
            await producer.flush()
            return [await delivery for delivery in deliveries]

    return asyncio.run(send())


def consume(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """All committed records of the topic, by partition and offset."""

    async def read() -> list[ConsumerRecord]:
        async with Consumer(
            bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            partitions = [TopicPartition(topic, number) for number in numbers]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            while True:
                positions = {each: await consumer.position(each) for each in partitions}
                if all(positions[each] >= end for each, end in ends.items()):
                    return sorted(records, key=lambda each: (each.partition, each.offset))
                records += await consumer.poll()

    numbers = end_offsets(bootstrap, topic)
    return asyncio.run(asyncio.wait_for(read(), 60))


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """The high watermarks by partition."""

    async def ask() -> dict[int, int]:
        async with Admin(bootstrap) as admin:
            (found,) = (await admin.topics.describe([topic])).unwrap().values()
            wanted = {
                TopicPartition(topic, number): OffsetSpec.LATEST for number in found.partitions
            }
            answer = (await admin.partitions.list_offsets(wanted)).unwrap()
            return {key.partition: value.offset or 0 for key, value in answer.items()}

    return asyncio.run(ask())

"""The steps with aiokafka."""

import asyncio
import time
import uuid
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.interop.clients import steps
from tests.interop.clients.steps import DEADLINE_SECONDS, Item


def _to_item(record: Any) -> Item:
    position = (record.partition, record.offset, record.timestamp)
    return Item(*position, record.key, record.value, tuple(record.headers))


class AiokafkaClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.runner = asyncio.Runner()
        self.admin = self._run(self._start_admin())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(coroutine)

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def close(self) -> None:
        self._run(self.admin.close())
        self.runner.close()

    def create(self, topic: str, partitions: str, *configs: str) -> None:
        config = dict(pair.split("=", 1) for pair in configs)
        new = NewTopic(topic, int(partitions), 1, topic_configs=config)
        response = self._run(self.admin.create_topics([new]))
        _check([error for _, error, *_ in response.topic_errors])

    def create_partitions(self, topic: str, total: str) -> None:
        answer = self._run(self.admin.create_partitions({topic: NewPartitions(int(total))}))
        _check([error for _, error, *_ in answer.topic_errors])

    def produce(self, topic: str, codec: str, idempotent: str, path: str) -> str:
        return self._run(self._produce(topic, codec, idempotent == "1", path))

    async def _produce(self, topic: str, codec: str, idempotent: bool, path: str) -> str:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=20,
        )
        await producer.start()
        items = steps.read_items(path)
        futures = [
            await producer.send(
                topic,
                value=item.value,
                key=item.key,
                partition=item.partition,
                timestamp_ms=item.timestamp,
                headers=list(item.headers),
            )
            for item in items
        ]
        await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_SECONDS)
        await producer.stop()
        return str(len(items))

    async def _consumer(self, group: str | None, *topics: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            *topics,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        return consumer

    async def _poll(self, consumer: AIOKafkaConsumer, count: int) -> list[Item]:
        items: list[Item] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(items) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {len(items)} of {count}")
            for records in (await consumer.getmany(timeout_ms=500)).values():
                items.extend(map(_to_item, records))
        return items

    def consume(self, topic: str, group: str, count: str, path: str) -> str:
        return self._run(self._consume(topic, group, int(count), path))

    async def _consume(self, topic: str, group: str, count: int, path: str) -> str:
        consumer = await self._consumer(group, topic)
        items = await self._poll(consumer, count)
        await consumer.commit()
        await consumer.stop()
        steps.write_items(path, items)
        return str(len(items))

    async def _assign(self, consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
        described = await self.admin.describe_topics([topic])
        numbers = sorted(part["partition"] for part in described[0]["partitions"])
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        return partitions

    def read(self, topic: str, count: str, path: str) -> str:
        return self._run(self._read(topic, int(count), path))

    async def _read(self, topic: str, count: int, path: str) -> str:
        consumer = await self._consumer(None)
        await consumer.seek_to_beginning(*await self._assign(consumer, topic))
        items = await self._poll(consumer, count)
        await consumer.stop()
        steps.write_items(path, items)
        return str(len(items))

    def seek(self, topic: str, timestamp: str, path: str) -> str:
        return self._run(self._seek(topic, int(timestamp), path))

    async def _seek(self, topic: str, timestamp: int, path: str) -> str:
        consumer = await self._consumer(f"seeker-{uuid.uuid4()}")
        partitions = await self._assign(consumer, topic)
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, timestamp))
        ends = await consumer.end_offsets(partitions)
        starts = {p: found[p].offset if found.get(p) else ends[p] for p in partitions}
        for partition, start in starts.items():
            consumer.seek(partition, start)
        items = await self._poll(consumer, sum(ends.values()) - sum(starts.values()))
        await consumer.stop()
        steps.write_items(path, items)
        return steps.pairs_text((p.partition, start) for p, start in starts.items())

    def offsets(self, topic: str) -> str:
        return self._run(self._offsets(topic))

    async def _offsets(self, topic: str) -> str:
        consumer = await self._consumer(None)
        partitions = await self._assign(consumer, topic)
        low = await consumer.beginning_offsets(partitions)
        high = await consumer.end_offsets(partitions)
        await consumer.stop()
        return steps.pairs_text((p.partition, f"{low[p]}:{high[p]}") for p in partitions)

    def committed(self, group: str, topic: str) -> str:
        offsets = self._run(self.admin.list_consumer_group_offsets(group))
        return steps.pairs_text(
            (p.partition, value.offset) for p, value in offsets.items() if p.topic == topic
        )

    def config(self, topic: str, key: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        for response in self._run(self.admin.describe_configs([resource])):
            for entry in response.resources[0][4]:
                if entry[0] == key:
                    return str(entry[1])
        raise KeyError(key)

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})
        self._run(self.admin.alter_configs([resource]))

    def topics(self) -> str:
        return ",".join(sorted(self._run(self.admin.list_topics())))

    def groups(self) -> str:
        return ",".join(sorted(g[0] for g in self._run(self.admin.list_consumer_groups())))

    def delete(self, topic: str) -> None:
        answer = self._run(self.admin.delete_topics([topic]))
        _check([error for _, error in answer.topic_error_codes])


def _check(codes: list[int]) -> None:
    if any(codes):
        raise RuntimeError(f"error codes {codes}")


if __name__ == "__main__":
    steps.main(AiokafkaClient)

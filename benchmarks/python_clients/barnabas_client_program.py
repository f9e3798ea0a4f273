"""Our own client: `send` and `drain` per record, `poll` and `poll_columns` for reading."""

from __future__ import annotations

import asyncio

from barnabas_client import Consumer, Producer, TopicPartition
from benchmarks.python_clients.measurement import (
    BATCH_BYTES,
    LINGER_MS,
    POLL_COUNT_MAX,
    Reading,
    Stopwatch,
    Task,
    read_task,
)


async def produce(task: Task) -> None:
    values, topic = task.values(), task.topic
    async with Producer(
        task.bootstrap, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    ) as producer:
        for index in range(task.warm_up_count):
            producer.send(topic, values[index & 15])
            await producer.drain()
        await producer.flush()
        watch = Stopwatch()
        for index in range(task.count):
            producer.send(topic, values[index & 15])
            await producer.drain()
        await producer.flush()
        watch.print(task.count)


async def consume(task: Task) -> None:
    async with Consumer(task.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(task.topic, 0)])
        reading = Reading(task)
        while not reading.add(len(await consumer.poll(max_records=POLL_COUNT_MAX))):
            pass


async def columns(task: Task) -> None:
    async with Consumer(task.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(task.topic, 0)])
        reading = Reading(task)
        while not reading.add(sum(len(chunk) for chunk in await consumer.poll_columns())):
            pass


if __name__ == "__main__":
    chosen = read_task("produce", "consume", "columns")
    tasks = {"produce": produce, "consume": consume, "columns": columns}
    asyncio.run(tasks[chosen.name](chosen))

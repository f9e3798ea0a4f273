"""aiokafka: `send` awaited per record, `getmany` for reading (quicker than its iterator)."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

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
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap,
        acks="all",
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
    )
    values = task.values()
    await producer.start()
    try:
        for index in range(task.warm_up_count):
            await producer.send(task.topic, values[index & 15])
        await producer.flush()
        watch = Stopwatch()
        for index in range(task.count):
            await producer.send(task.topic, values[index & 15])
        await producer.flush()
        watch.print(task.count)
    finally:
        await producer.stop()


async def consume(task: Task) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(task.topic, 0)])
        reading = Reading(task)
        while True:
            found = await consumer.getmany(timeout_ms=1000, max_records=POLL_COUNT_MAX)
            if reading.add(sum(len(records) for records in found.values())):
                return
    finally:
        await consumer.stop()


if __name__ == "__main__":
    chosen = read_task("produce", "consume")
    asyncio.run(produce(chosen) if chosen.name == "produce" else consume(chosen))

"""confluent-kafka (librdkafka, in C): `produce` with `poll` in between, `consume` for reading.

A callback per record tells what became of it, as the futures of the other producers do. Checksums
are verified as by the others, which is not its default.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from benchmarks.python_clients.measurement import (
    BATCH_BYTES,
    LINGER_MS,
    POLL_COUNT_MAX,
    Reading,
    Stopwatch,
    Task,
    read_task,
)

# Its queue holds 100,000 records; answers are looked for so often.
_POLL_EVERY = 100


def produce(task: Task) -> None:
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_BYTES,
        }
    )
    _send(producer, task, task.warm_up_count)
    watch = Stopwatch()
    _send(producer, task, task.count)
    watch.print(task.count)


def _send(producer: Producer, task: Task, count: int) -> None:
    values, topic = task.values(), task.topic
    delivered = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal delivered
        if error is not None:
            raise RuntimeError(str(error))
        delivered += 1

    for index in range(count):
        while True:
            try:
                producer.produce(topic, values[index & 15], on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if index % _POLL_EVERY == 0:
            producer.poll(0)
    producer.flush()
    if delivered != count:
        raise RuntimeError(f"{delivered} of {count} records were delivered")


def consume(task: Task) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(task.topic, 0, OFFSET_BEGINNING)])
    reading = Reading(task)
    while True:
        records = consumer.consume(POLL_COUNT_MAX, timeout=1.0)
        if any(record.error() for record in records):
            raise RuntimeError(str(next(r.error() for r in records if r.error())))
        if reading.add(len(records)):
            break
    consumer.close()


if __name__ == "__main__":
    chosen = read_task("produce", "consume")
    produce(chosen) if chosen.name == "produce" else consume(chosen)

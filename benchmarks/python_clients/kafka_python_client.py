"""kafka-python: `send` per record, `poll` for reading."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.python_clients.measurement import (
    BATCH_BYTES,
    LINGER_MS,
    POLL_COUNT_MAX,
    Reading,
    Stopwatch,
    Task,
    read_task,
)


def produce(task: Task) -> None:
    producer = KafkaProducer(
        bootstrap_servers=task.bootstrap, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    )
    values = task.values()
    for index in range(task.warm_up_count):
        producer.send(task.topic, values[index & 15])
    producer.flush()
    watch = Stopwatch()
    for index in range(task.count):
        producer.send(task.topic, values[index & 15])
    producer.flush()
    watch.print(task.count)
    producer.close()


def consume(task: Task) -> None:
    consumer = KafkaConsumer(bootstrap_servers=task.bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(task.topic, 0)])
    reading = Reading(task)
    while True:
        found = consumer.poll(timeout_ms=1000, max_records=POLL_COUNT_MAX)
        if reading.add(sum(len(records) for records in found.values())):
            break
    consumer.close()


if __name__ == "__main__":
    chosen = read_task("produce", "consume")
    produce(chosen) if chosen.name == "produce" else consume(chosen)

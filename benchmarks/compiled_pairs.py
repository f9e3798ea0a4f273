"""`python -m benchmarks.compiled_pairs ROUNDS`: one broker as plain Python and as wheels have it.

The same producer (librdkafka, acks=all) writes 1 KiB records to each in turn, first a batch each,
then in large batches, and a consumer reads these. Told are medians of the broker's processor time,
for a batch and for a GiB, and of the pairs' ratio: two runs one after the other see the same
machine.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.compiled import compiled
from tests.support.barnabas_process import BarnabasProcess

RECORDS = 300_000
SINGLES = 40_000
VALUE = bytes(1024)
PARTITIONS = 4
TOPIC = "pairs"
SINGLE_TOPIC = "singles"


@contextmanager
def broker(folder: Path | None) -> Iterator[BarnabasProcess]:
    """A broker, with the compiled packages of a folder before those of the tree."""
    environment = {} if folder is None else {"PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory() as directory:
        running = BarnabasProcess(
            Path(directory),
            properties={"num.partitions": str(PARTITIONS)},
            environment=environment,
        )
        running.start()
        try:
            yield running
        finally:
            running.stop()


def produce(bootstrap: str, topic: str, count: int, *, records_per_batch: int = 10_000) -> None:
    """Return when all is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "batch.num.messages": records_per_batch,
        }
    )
    failures = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, VALUE, partition=number % PARTITIONS, on_delivery=delivered)
        if number % 500 == 0:
            producer.poll(0)
        while len(producer) > 20_000:
            producer.poll(0.05)
    assert producer.flush(120) == 0
    assert not failures, failures[0]


def consume(bootstrap: str, count: int) -> None:
    """Read so many records from the beginning."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "pairs", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    left = count
    while left > 0:
        found = consumer.consume(10_000, timeout=30)
        assert found, f"{left} records did not come"
        left -= len(found)
    consumer.close()


def measured(folder: Path | None) -> dict[str, float]:
    """Processor time of the broker: µs for a batch, seconds for a GiB."""
    gib = RECORDS * len(VALUE) / (1 << 30)
    with broker(folder) as running:
        for topic in (SINGLE_TOPIC, TOPIC):
            produce(running.bootstrap, topic, 5_000)
        times = [running.cpu_seconds()]
        produce(running.bootstrap, SINGLE_TOPIC, SINGLES, records_per_batch=1)
        times.append(running.cpu_seconds())
        produce(running.bootstrap, TOPIC, RECORDS)
        times.append(running.cpu_seconds())
        consume(running.bootstrap, RECORDS)
        times.append(running.cpu_seconds())
    singles, produced, consumed = (after - before for before, after in pairwise(times))
    return {
        "µs a batch of one record": singles / SINGLES * 1e6,
        "s a GiB produced": produced / gib,
        "s a GiB consumed": consumed / gib,
    }


def main() -> None:
    """Print a line for each of the two."""
    folder = compiled()
    pairs = []
    for number in range(int(sys.argv[1])):
        forms = (None, folder) if number % 2 == 0 else (folder, None)
        found = {form: measured(form) for form in forms}
        pairs.append((found[None], found[folder]))
    for name in pairs[0][0]:
        plain = statistics.median(one[name] for one, _ in pairs)
        fast = statistics.median(one[name] for _, one in pairs)
        ratio = statistics.median(after[name] / before[name] for before, after in pairs)
        print(f"{name:26} {plain:7.2f} {fast:7.2f}   compiled / plain {ratio:.2f}")


if __name__ == "__main__":
    main()

"""Numbered records: written without pause while others are killed, and looked for at the end."""

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence

from barnabas_client import Consumer, ConsumerRecord, Producer, TopicPartition
from barnabas_client.admin import Admin, NewTopic
from barnabas_client.errors import BarnabasError
from tests.support.barnabas_cluster import BarnabasCluster

TOPIC = "numbers"
PARTITIONS = 4
GROUPS = 7
#: Event times are counted, not measured: 20 records a second.
FIRST_TIMESTAMP_MS = 1_790_000_000_000
STEP_MS = 50

_BURST = 25
_BURST_SECONDS = 0.06
_DEADLINE_SECONDS = 240


def timestamp_of(number: int) -> int:
    """The event time of a record."""
    return FIRST_TIMESTAMP_MS + number * STEP_MS


def value_of(number: int) -> bytes:
    """The value of a record."""
    return json.dumps({"group": f"g{number % GROUPS}", "n": number}).encode()


class NumberedProducer(threading.Thread):
    """Sends numbered records until it is told to stop; knows which of them were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="numbered-producer", daemon=True)
        self._servers = bootstrap
        self._is_over = threading.Event()
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.unknown: dict[int, str] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """End after the burst that is under way."""
        self._is_over.set()
        self.join(_DEADLINE_SECONDS)
        assert not self.is_alive(), "the producer does not end"
        if self.error is not None:
            raise self.error

    async def _send(self) -> None:
        number = 0
        async with Producer(self._servers, acks="all") as producer:
            while not self._is_over.is_set():
                numbers = range(number, number + _BURST)
                deliveries = [
                    producer.send(
                        TOPIC,
                        value_of(one),
                        key=b"g%d" % (one % GROUPS),
                        partition=one % PARTITIONS,
                        timestamp_ms=timestamp_of(one),
                        headers=[("n", b"%d" % one), ("n", None)],
                    )
                    for one in numbers
                ]
                number += _BURST
                await producer.drain()
                for one, delivery in zip(numbers, deliveries, strict=True):
                    try:
                        found = await delivery
                    except BarnabasError as error:
                        self.unknown[one] = str(error)
                    else:
                        self.acknowledged[one] = (found.partition, found.offset)
                await asyncio.sleep(_BURST_SECONDS)


async def make_topics(cluster: BarnabasCluster, *more: NewTopic) -> None:
    """The topic of numbers, and others, on three brokers."""
    async with Admin(cluster.bootstrap) as admin:
        await cluster.until_formed(admin)
        numbers = NewTopic(
            name=TOPIC,
            partition_count=PARTITIONS,
            replication_factor=3,
            configs={"retention.ms": "-1"},
        )
        await cluster.create_topics(admin, numbers, *more)


def read_topic(
    bootstrap: str, topic: str, partition_count: int = PARTITIONS
) -> list[ConsumerRecord]:
    """All committed records, by partition and offset."""

    async def read() -> list[ConsumerRecord]:
        async with Consumer(bootstrap, isolation_level="read_committed") as consumer:
            partitions = [TopicPartition(topic, one) for one in range(partition_count)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            ends = await consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            while True:
                positions = {each: await consumer.position(each) for each in partitions}
                if all(positions[each] >= end for each, end in ends.items()):
                    return sorted(records, key=lambda one: (one.partition, one.offset))
                records += await consumer.poll()

    return asyncio.run(asyncio.wait_for(read(), _DEADLINE_SECONDS))


def check_topic(
    records: Sequence[ConsumerRecord],
    acknowledged: Mapping[int, tuple[int, int]],
    unknown: Mapping[int, str],
) -> None:
    """What was acknowledged is in the topic once, where the producer was told."""
    places: dict[int, tuple[int, int]] = {}
    for record in records:
        number = json.loads(record.value)["n"]
        assert number not in places, f"{number} is in the topic twice"
        places[number] = (record.partition, record.offset)
    lost = {number: place for number, place in acknowledged.items() if places.get(number) != place}
    assert not lost, f"acknowledged and lost: {lost}"
    foreign = places.keys() - acknowledged.keys() - unknown.keys()
    assert not foreign, f"never sent: {foreign}"

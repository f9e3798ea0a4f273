"""What was sent in an attack, what became of it, and what can be read at the end."""

from typing import Any

from barnabas_client import Consumer, Producer, TopicPartition
from barnabas_client.errors import BarnabasError

#: So that a client under attack finds out soon and goes on soon.
SETTINGS: dict[str, Any] = {
    "request_timeout_ms": 300,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 40,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 40,
    "socket_connection_setup_timeout_ms": 400,
    "socket_connection_setup_timeout_max_ms": 800,
}


class History:
    """What was sent and what became of it, by partition and number."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, dict[int, int]] = {}
        self.failures: list[BaseException] = []
        self.sent: dict[int, int] = {}
        self.open_count = 0

    def send(self, producer: Producer, topic: str, partition: int, padding: bytes) -> None:
        """Send the partition's next record."""
        number = self.sent.get(partition, 0)
        promise = producer.send(topic, b"%d " % number + padding, partition=partition)
        self.sent[partition] = number + 1
        self.open_count += 1

        def done(delivery: Any) -> None:
            self.open_count -= 1
            error = delivery.exception()
            if error is not None:
                assert isinstance(error, BarnabasError), error
                self.failures.append(error)
            else:
                metadata = delivery.result()
                assert metadata.partition == partition
                self.acknowledged.setdefault(partition, {})[number] = metadata.offset

        promise.add_done_callback(done)


async def read_all(bootstrap: str, topic: str, count: int) -> dict[int, list[tuple[int, int]]]:
    """(offset, number) of every record of the topic, by partition."""
    partitions = [TopicPartition(topic, number) for number in range(count)]
    found: dict[int, list[tuple[int, int]]] = {}
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                for record in await consumer.poll():
                    assert record.value is not None
                    number = int(record.value.split()[0])
                    found.setdefault(record.partition, []).append((record.offset, number))
    return found

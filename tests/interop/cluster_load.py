"""A load on a cluster whose brokers leave and come back in turn.

The load numbers its records, so that what is lost, doubled or moved is seen; `lose_each_broker`
goes on only while the load does.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable

from barnabas_client.admin.admin import Admin
from barnabas_client.producer import Delivery, Producer
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import KafkaCluster, until

# How much is to be done before and after each loss of a broker.
STEP = 500
PAUSE_SECONDS = 0.02


class NumberedLoad:
    """An idempotent producer that numbers its records per partition, at a steady pace."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partition_count = partition_count
        self._stop = asyncio.Event()
        self.sent_per_partition = 0
        #: The offset of each acknowledged number.
        self.offsets: dict[int, dict[int, int]] = defaultdict(dict)
        self.failures: list[BaseException] = []
        self.acknowledged_count = 0

    async def run(self) -> None:
        """Send until `stop`, then wait for all acknowledgements."""
        async with Producer(self._bootstrap, linger_ms=2) as producer:
            while not self._stop.is_set():
                number = self.sent_per_partition
                self.sent_per_partition += 1
                for partition in range(self._partition_count):
                    delivery = producer.send(self._topic, b"%d" % number, partition=partition)
                    delivery.add_done_callback(self._noter(number))
                await producer.drain()
                await asyncio.sleep(PAUSE_SECONDS)
            await producer.flush()

    def stop(self) -> None:
        self._stop.set()

    def _noter(self, number: int) -> Callable[[Delivery], None]:
        def note(delivery: Delivery) -> None:
            error = delivery.exception()
            if error is not None:
                self.failures.append(error)
                return
            metadata = delivery.result()
            self.offsets[metadata.partition][number] = metadata.offset
            self.acknowledged_count += 1

        return note


async def lose_each_broker(
    cluster: KafkaCluster | BarnabasCluster,
    admin: Admin,
    topics: list[str],
    progress: Callable[[], int],
    *,
    victim: Callable[[], Awaitable[int]],
) -> None:
    """Stop and start every broker, then kill `victim`; each time the load has to go on."""

    async def goes_on() -> None:
        wanted = progress() + STEP

        async def has_come() -> bool:
            return progress() >= wanted

        await until(has_come)

    await goes_on()
    for broker in cluster.brokers.values():
        await asyncio.to_thread(broker.stop)
        await goes_on()
        await asyncio.to_thread(broker.start)
        await cluster.until_in_sync(admin, topics)
        await goes_on()
    broker = cluster.brokers[await victim()]
    await asyncio.to_thread(broker.kill)
    await goes_on()
    await asyncio.to_thread(broker.start)
    await cluster.until_in_sync(admin, topics)
    await goes_on()

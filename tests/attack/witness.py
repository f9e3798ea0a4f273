"""The well-behaved client beside the attack: 100 B every 20 ms, and every one of them fetched."""

import asyncio
import time
from typing import Final

from barnabas_client.consumer.consumer import Consumer
from barnabas_client.producer.producer import Producer

TOPIC: Final = "witness"
PAUSE_SECONDS: Final = 0.02
RECORD_BYTES: Final = 100


class Witness:
    """Produces and fetches until it is told to stop; keeps its errors and its longest gap."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.errors: list[str] = []
        self.sent_count = 0
        self.read_count = 0
        self.gap_seconds = 0.0
        self.total_gap_seconds = 0.0
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._last = time.monotonic()
        self._is_stopping = False

    def begin_attack(self) -> None:
        """Measure the longest gap anew."""
        self.gap_seconds = 0.0

    async def run(self) -> None:
        """Produce and fetch; errors are noted, and it goes on."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._produce())
            tasks.create_task(self._fetch())

    def stop(self) -> None:
        """End when what was sent is read."""
        self._is_stopping = True

    def _moved(self) -> None:
        now = time.monotonic()
        self.gap_seconds = max(self.gap_seconds, now - self._last)
        self.total_gap_seconds = max(self.total_gap_seconds, self.gap_seconds)
        self._last = now

    async def _produce(self) -> None:
        async with Producer(self._bootstrap, acks="all", linger_ms=0) as producer:
            while not self._is_stopping:
                try:
                    await producer.send(
                        TOPIC, bytes(RECORD_BYTES), partition=self.sent_count % self._partitions
                    )
                    self.sent_count += 1
                    self._moved()
                except Exception as error:
                    self.errors.append(f"produce: {type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE_SECONDS)

    async def _fetch(self) -> None:
        async with Consumer(self._bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(TOPIC, number) for number in range(self._partitions)])
            while not self._is_stopping or self.read_count < self.sent_count:
                try:
                    self.read_count += len(await consumer.poll(timeout_ms=1000))
                except Exception as error:
                    self.errors.append(f"fetch: {type(error).__name__}: {error}")
                    await asyncio.sleep(PAUSE_SECONDS)

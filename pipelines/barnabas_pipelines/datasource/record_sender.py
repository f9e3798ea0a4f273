"""Sends Arrow batches to topics, for code that is not asynchronous.

Spark hands batches to a Python worker one after the other and may take its time between two.
Meanwhile the producer must read acknowledgements and repeat what was lost; so it runs in the loop
of a thread, and the worker waits only while too much is under way. The producer is kept for the
next task of the process, so that small batches of a stream do not connect anew each time.

Not here: the thread (`loop_thread.py`), from rows to lists (`record_rows.py`), Spark's writers
(`writers.py`).
Invariants: rows of a partition keep their order; at most `_BATCHES_AHEAD` Arrow batches and the
producer's `buffer_memory` are held; after `finish` every row is acknowledged or an error was
raised; a producer with an error is not used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa

from barnabas_client.env import Environment
from barnabas_client.errors import BarnabasError, BrokerUnreachableError
from barnabas_client.producer import Producer
from barnabas_client.producer.delivery import Deliveries
from barnabas_pipelines.datasource import record_rows
from barnabas_pipelines.datasource.loop_thread import KeptClients, loop_thread
from barnabas_pipelines.errors import DeliveryError, PipelineError, UnreachableError

# The worker reads the next batch from Spark while one is being sent.
_BATCHES_AHEAD: Final = 2


class RecordSender:
    """Sends the rows of one task."""

    def __init__(
        self,
        producer: Producer,
        topic: str | None,
        on_acknowledged: Callable[[Deliveries], None] = lambda _: None,
    ) -> None:
        """Take a started producer; without a topic, a column of the rows says it.

        `on_acknowledged` is called for rows that are in the log, and may raise.
        """
        self._producer = producer
        self._topic = topic
        self._on_acknowledged = on_acknowledged
        self._thread = loop_thread()
        self._ahead: deque[Future[None]] = deque()
        self._pending: deque[tuple[str, Deliveries]] = deque()
        self._count = 0
        # Batches are taken in one after the other, or one that waits for room would be overtaken.
        self._turn = asyncio.Lock()

    def send(self, batch: pa.RecordBatch) -> None:
        """Send the rows; waits while earlier ones are still being taken in.

        Raises: PipelineError for what is wrong with these rows or with earlier ones.
        """
        while len(self._ahead) >= _BATCHES_AHEAD:
            self._ahead.popleft().result()
        self._ahead.append(self._thread.submit(self._send(batch)))

    def finish(self) -> int:
        """The number of all rows, which are acknowledged.

        Raises: PipelineError if any is not.
        """
        while self._ahead:
            self._ahead.popleft().result()
        self._thread.run(self._settle())
        return self._count

    def abandon(self) -> None:
        """Give up what is not acknowledged, and the producer."""
        for future in self._ahead:
            future.cancel()
        self._thread.run(self._abandon())

    # ---- in the thread -------------------------------------------------------------------------

    async def _send(self, batch: pa.RecordBatch) -> None:
        async with self._turn:
            await self._send_in_turn(batch)

    async def _send_in_turn(self, batch: pa.RecordBatch) -> None:
        for chunk in record_rows.chunks(batch):
            for name, rows in record_rows.by_topic(chunk, self._topic):
                try:
                    await self._send_rows(name, rows)
                except BarnabasError as error:
                    raise _failure(name, error) from error
            while self._pending and self._pending[0][1].done():
                await self._settle_first()

    async def _send_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        producer = self._producer
        count = None
        if record_rows.needs_partition_count(rows):
            count = len(await producer.partitions_for(topic))
        now_ms = Environment().clock.wall_ms()
        for group in record_rows.by_partition(rows, count, now_ms):
            deliveries = await producer.send_many(
                topic,
                group.values,
                keys=group.keys,
                partition=group.partition,
                timestamps_ms=group.timestamps_ms,
                headers=group.headers,
            )
            self._pending.append((topic, deliveries))

    async def _settle(self) -> None:
        if self._pending:
            # What lingers for more records goes out now.
            await self._producer.flush()
        while self._pending:
            await self._settle_first()

    async def _settle_first(self) -> None:
        topic, deliveries = self._pending.popleft()
        try:
            self._count += await deliveries
        except BarnabasError as error:
            raise _failure(topic, error) from error
        self._on_acknowledged(deliveries)

    async def _abandon(self) -> None:
        await self._producer.close(timeout_ms=0)
        # They are awaited, so that no error is logged as never retrieved.
        for _, deliveries in self._pending:
            with suppress(BarnabasError):
                await deliveries


def _failure(topic: str, error: BarnabasError) -> PipelineError:
    return DeliveryError(f"rows for topic {topic} were not written: {error}")


async def _started(settings: Hashable) -> Producer:
    assert isinstance(settings, tuple)
    producer = Producer(**dict(settings))
    await producer.start()
    return producer


_producers: Final = KeptClients(_started)


@contextmanager
def delivery_errors(servers: str) -> Iterator[None]:
    """Raise what the client raises in words of the pipelines.

    Raises: UnreachableError; DeliveryError for what the brokers refuse.
    """
    try:
        yield
    except BrokerUnreachableError as error:
        raise UnreachableError(f"no broker of {servers} responds: {error}") from error
    except BarnabasError as error:
        raise DeliveryError(f"rows cannot be written to {servers}: {error}") from error


@contextmanager
def record_sender(settings: Mapping[str, Any], topic: str | None) -> Iterator[RecordSender]:
    """A sender with a producer of these settings, which is kept unless something is raised.

    Raises: UnreachableError; DeliveryError for what the brokers refuse.
    """
    with (
        delivery_errors(settings["bootstrap_servers"]),
        _producers.borrow(tuple(sorted(settings.items()))) as producer,
    ):
        sender = RecordSender(producer, topic)
        try:
            yield sender
        except BaseException:
            sender.abandon()
            raise

"""A producer for code that is not asynchronous: rows go to a thread that has a loop of its own.

Spark hands Arrow batches to a Python worker one after the other and may take its time between two.
Meanwhile the producer must hear acknowledgements and repeat what was lost; so it runs in a thread,
and the worker waits only while too much is under way. Thread and producer are kept for the next
task of the process, so that small batches of a stream do not connect anew each time.

Not here: from rows to lists (`record_rows.py`), Spark's writers (`writers.py`).
Invariants: at most `_BATCHES_AHEAD` Arrow batches and the producer's `buffer_memory` are held;
after `finish` every row is acknowledged or an error was raised; a producer with an error is not
used again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import pyarrow as pa

from barnabas_client.env import Environment
from barnabas_client.errors import BarnabasError, BrokerUnreachableError
from barnabas_client.producer import Producer
from barnabas_client.producer.bulk import Deliveries
from barnabas_pipelines.datasource import record_rows
from barnabas_pipelines.errors import DeliveryError, PipelineError, UnreachableError

# The worker reads the next batch from Spark while one is being sent.
_BATCHES_AHEAD: Final = 2
_CLOSE_TIMEOUT_MS: Final = 0
_T = TypeVar("_T")


class RecordSender:
    """Sends Arrow batches to topics; one task at a time uses it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Start the thread and find the cluster.

        Raises: UnreachableError; DeliveryError for what the brokers refuse.
        """
        self.settings = dict(settings)
        self._ahead: deque[Future[None]] = deque()
        self._pending: deque[tuple[str, Deliveries]] = deque()
        self._topic: str | None = None
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="barnabas-sender", daemon=True
        )
        self._thread.start()
        try:
            self._producer = self._run(self._start())
        except BarnabasError as error:
            self._end_thread()
            servers = self.settings["bootstrap_servers"]
            if isinstance(error, BrokerUnreachableError):
                raise UnreachableError(f"no broker of {servers} answers: {error}") from error
            raise DeliveryError(f"rows cannot be written to {servers}: {error}") from error

    async def _start(self) -> Producer:
        producer = Producer(**self.settings)
        await producer.start()
        return producer

    def begin(self, topic: str | None) -> None:
        """Take the rows of a task from now on; without a topic, a column says it."""
        assert not self._ahead and not self._pending
        self._topic, self._count = topic, 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Send the rows; waits while earlier ones are still being taken in.

        Raises: PipelineError for what is wrong with these rows or with earlier ones.
        """
        while len(self._ahead) >= _BATCHES_AHEAD:
            self._ahead.popleft().result()
        work = self._send(batch, self._topic)
        self._ahead.append(asyncio.run_coroutine_threadsafe(work, self._loop))

    def finish(self) -> int:
        """The number of rows since `begin`, all of them acknowledged.

        Raises: PipelineError if any is not.
        """
        while self._ahead:
            self._ahead.popleft().result()
        self._run(self._settle())
        return self._count

    def close(self) -> None:
        """End producer and thread; what is not acknowledged fails."""
        for future in self._ahead:
            future.cancel()
        self._run(self._close())
        self._end_thread()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- in the thread -------------------------------------------------------------------------

    async def _send(self, batch: pa.RecordBatch, topic: str | None) -> None:
        for chunk in record_rows.chunks(batch):
            for name, rows in record_rows.by_topic(chunk, topic):
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

    async def _close(self) -> None:
        await self._producer.close(_CLOSE_TIMEOUT_MS)
        # Somebody has asked about them, so that nobody logs that nobody did.
        for _, deliveries in self._pending:
            with suppress(BarnabasError):
                await deliveries


def _failure(topic: str, error: BarnabasError) -> PipelineError:
    return DeliveryError(f"rows for topic {topic} were not written: {error}")


_kept: RecordSender | None = None


@contextmanager
def record_sender(settings: Mapping[str, Any], topic: str | None) -> Iterator[RecordSender]:
    """The sender of this process for these settings, kept for the next task unless it fails."""
    global _kept
    if _kept is not None and _kept.settings != settings:
        _kept.close()
        _kept = None
    sender = _kept or RecordSender(settings)
    _kept = None
    sender.begin(topic)
    try:
        yield sender
    except BaseException:
        sender.close()
        raise
    _kept = sender

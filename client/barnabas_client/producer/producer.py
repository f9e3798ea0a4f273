"""`Producer`: `send` adds a record to a batch, one task sends batches, awaiting returns metadata.

    async with Producer("broker:9092") as producer:
        metadata = await producer.send("topic", b"value", key=b"key")   # one by one
        for value in values:                                            # many, fast
            producer.send("topic", value)
            await producer.drain()
        await producer.flush()

This module is the shell. Read on in `admission.py` (into a batch), `accumulator.py` (when a batch
is sent), `sender.py` (requests), `batch_completion.py` (responses), `idempotence.py` (order) and
`transactions.py`.

Invariants: only argument and state errors raise from `send`, all others from what it returns; after
`close` no task is left and every record is acknowledged or has failed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import accumulate, repeat
from operator import add
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, Unpack

from barnabas_client.cluster.metadata import ClusterMetadata, PartitionMetadata
from barnabas_client.cluster.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas_client.cluster.topic_names import check_topic_name
from barnabas_client.config.options import ProducerOptions
from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import (
    BarnabasError,
    ClosedError,
    ConfigurationError,
    IllegalStateError,
    TimedOutError,
    UsageError,
)
from barnabas_client.network.client import Client
from barnabas_client.network.closing import run_to_end
from barnabas_client.producer.accumulator import RecordAccumulator
from barnabas_client.producer.admission import Admission
from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.batch_completion import BatchCompletion
from barnabas_client.producer.delivery import Deliveries, Delivery, finished
from barnabas_client.producer.idempotence import Identities, ProducerIdentity
from barnabas_client.producer.interceptors import ProducerInterceptors, ProducerRecord
from barnabas_client.producer.preparation import TIMESTAMP_MS_MAX, Preparation
from barnabas_client.producer.producer_id import IdempotentIdentity, new_identity
from barnabas_client.producer.record_encoding import RECORD_OVERHEAD_BYTES, Headers
from barnabas_client.producer.sender import IdentitySource, Sender
from barnabas_client.producer.transaction_calls import TransactionCalls
from barnabas_client.producer.transaction_manager import TransactionManager
from barnabas_client.producer.transactions import ProducerTransaction
from barnabas_protocol.ids import TopicPartition

# `drain` lets the loop run each time so much was sent: often enough to keep brokers busy, seldom
# enough that a turn of the loop costs little per record.
_BYTES_PER_TURN: Final = 64 * 1024
_BATCHES_PER_TURN_MAX: Final = 64
# Metadata of a topic that nothing was sent to for so long are not requested any more (Java:
# metadata.max.idle.ms).
METADATA_IDLE_MS: Final = 5 * 60_000

_new_tuple = tuple.__new__


class ProducerInternals(NamedTuple):
    """What `Producer.internals` shows."""

    admission: Admission
    sender: Sender
    sender_task: asyncio.Task[None]


class Producer:
    """Sends records to topics; one per application, in one asyncio loop, not thread-safe."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client: Client | None = None,
        identity: ProducerIdentity | None = None,
        **settings: Unpack[ProducerOptions],
    ) -> None:
        """Take the settings, those of docs/reference; nothing is connected yet.

        A `client` that is given stays open at the end. With an `identity` (of `new_identity`, and
        an epoch that whoever makes producers with it has raised) all records are written as that
        one and no other: once a partition has records of a higher producer epoch, those of this
        one are refused with FencedError. The caller sees to it that no two use the same.
        Raises: ConfigurationError.
        """
        chosen = ProducerSettings.create({"bootstrap_servers": bootstrap_servers, **settings})
        if identity is not None and not chosen.enable_idempotence:
            raise ConfigurationError("an identity needs enable_idempotence=True")
        if identity is not None and chosen.transactional_id is not None:
            raise ConfigurationError(
                "the identity of a transactional producer is its coordinator's"
            )
        self.settings = chosen
        self._owns_client = client is None
        self._client = client or Client(chosen)
        environment = self._client.environment
        self._wall_ms: Callable[[], int] = environment.clock.wall_ms
        self._monotonic_ms: Callable[[], int] = environment.clock.monotonic_ms
        self._sender: Sender | None = None
        self._sender_task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._is_closed = False
        # Done when `close` is; None before.
        self._closed: asyncio.Future[None] | None = None
        self._close_limit: asyncio.Timeout | None = None
        self._yielded_at = 0
        per_turn = _BYTES_PER_TURN // max(chosen.batch_size, 1)
        self._batches_per_turn = max(1, min(per_turn, _BATCHES_PER_TURN_MAX))
        self._room: asyncio.Event | None = None
        # When a call last needed the metadata of each topic.
        self._wanted_at_ms: dict[str, int] = {}
        self._transactions: TransactionCalls | None = None
        is_transactional = chosen.transactional_id is not None
        self._identities = (
            Identities(is_transactional=is_transactional, given=identity)
            if chosen.enable_idempotence
            else None
        )
        self._accumulator = RecordAccumulator(chosen, self._identities)
        self._admission = Admission(chosen, self._accumulator, environment.random, self._want_topic)
        # Empty while no record can be added inline, so that one look-up in `send` decides.
        needs_preparation = bool(
            chosen.interceptors
            or chosen.key_serializer
            or chosen.value_serializer
            or chosen.partitioner
            or chosen.transactional_id
            or chosen.partitioner_ignore_keys
        )
        self._open_topics = {} if needs_preparation else self._admission.open_topics
        self._preparation = Preparation(chosen)
        self._interceptors = ProducerInterceptors(chosen.interceptors)

    async def start(self) -> None:
        """Find the cluster; to be awaited before anything else, does nothing if that was done.

        Raises: BrokerUnreachableError, AuthenticationError, UnsupportedError.
        """
        if self._is_closed:
            raise ClosedError("the producer is closed: make a new one")
        client = self._client
        await client.start()
        if self._sender_task is not None:
            return
        self._room = asyncio.Event()
        identity = self._identity_source(client)
        transactions = self._transactions
        if transactions is not None:
            self._admission.on_failure = transactions.state.fail
        completion = BatchCompletion(
            self._accumulator,
            retries=self.settings.retries,
            delivery_timeout_ms=self.settings.delivery_timeout_ms,
            backoff_ms=lambda attempts: client.backoff_ms(attempts - 1),
            on_transaction_error=transactions.state.record_failed if transactions else None,
        )
        self._sender = Sender(
            client,
            self.settings,
            self._accumulator,
            self._admission,
            completion,
            identity,
            self._room.set,
        )
        self._unsubscribe = client.on_metadata(self._on_metadata)
        self._on_metadata(client.cluster)
        self._sender_task = asyncio.get_running_loop().create_task(self._sender.run())

    async def new_identity(self) -> ProducerIdentity:
        """Get a producer id that no other producer has, with its first epoch, to give it to others.

        Raises: RetriableError if no broker responded in time; else the error of the broker.
        """
        return await new_identity(self._client)

    def _identity_source(self, client: Client) -> IdentitySource | None:
        if self._identities is None:
            return None
        transactional_id = self.settings.transactional_id
        if transactional_id is None:
            return IdempotentIdentity(client, self._identities)
        state = ProducerTransaction(transactional_id)
        coordinator = TransactionManager(client, self.settings, state, self._identities)
        self._transactions = TransactionCalls(state, coordinator, lambda: self._flush(None))
        return coordinator

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Send a record; await the result for its metadata, or drop it and `flush` later.

        Does not wait: a record for which there is no room waits for up to `max_block_ms`. Await
        `drain` between calls, so that few records wait.
        Raises: UsageError and its kinds if the record cannot be sent as it is, or the producer is
        closed; BufferFullError if too many records wait.
        """
        queues = self._open_topics.get(topic)
        if queues is None or value.__class__ is not bytes or headers:
            return self._send(topic, value, key, partition, timestamp_ms, headers)
        # From here on inline what `Admission` and `ProducerBatch.append` do for all others.
        if partition is not None:
            is_there = partition.__class__ is int and 0 <= partition < len(queues.queues)
            queue = queues.queues[partition] if is_there else None
        elif key is None:
            queue = queues.sticky
        else:
            queue = queues.by_key.get(key) if key.__class__ is bytes else None
        batch = None if queue is None else queue.open_batch
        if batch is None or (timestamp_ms is not None and not _is_plain_time(timestamp_ms)):
            return self._send(topic, value, key, partition, timestamp_ms, ())
        if key is None:
            room = batch.room_bytes - len(value) - RECORD_OVERHEAD_BYTES
            if room < 0 or not batch.is_plain:
                return self._send(topic, value, None, partition, timestamp_ms, ())
        else:
            room = batch.room_bytes - len(value) - len(key) - RECORD_OVERHEAD_BYTES
            if room < 0 or not batch.is_keyed or key.__class__ is not bytes:
                return self._send(topic, value, key, partition, timestamp_ms, ())
            batch.keys.append(key)  # type: ignore[union-attr]
        batch.room_bytes = room
        batch.timestamps.append(self._wall_ms() if timestamp_ms is None else timestamp_ms)
        values = batch.values
        values.append(value)
        return _new_tuple(Delivery, (batch, len(values) - 1))

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Headers,
    ) -> Delivery:
        """Send a record that is not plain, or for which there is no open batch (PRD-1)."""
        self._check_open()
        if self._transactions is not None:
            self._transactions.state.check_can_send()
        record = ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        interceptors = self._interceptors
        if interceptors.exist:
            record = interceptors.on_send(record)
        try:
            delivery = self._accept(record)
        except BarnabasError as error:
            interceptors.refused(error)
            raise
        if interceptors.exist:
            interceptors.watch(delivery)
        return delivery

    def _accept(self, record: ProducerRecord) -> Delivery:
        topic, key, value, partition, timestamp_ms, headers = self._preparation.prepare(record)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        count = self._accumulator.batch_count
        delivery = self._admission.accept(
            topic, key, value, partition, timestamp_ms, headers, self._monotonic_ms()
        )
        if self._accumulator.batch_count != count or self._admission.waiting:
            assert self._sender is not None
            self._sender.wake()
        return delivery

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the producer is closed")
        if self._sender is None:
            raise IllegalStateError("the producer is not started: use `async with`, or start()")
        if self._sender.failure is not None:
            raise self._sender.failure

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Headers] | None = None,
    ) -> Deliveries:
        """Send records of a topic in their order, as `send` and `drain` would one by one.

        The sequences are as long as `values`; keys are all null, and times those of this call, if
        they are not given. It is fast for bytes without headers, of one partition if there are
        keys. Waits while there is no room, not for acknowledgements: await what it returns, too.
        Raises: UsageError and its kinds if a record cannot be sent as it is; those before it are
        sent.
        """
        columns = {"keys": keys, "timestamps_ms": timestamps_ms, "headers": headers}
        for name, column in columns.items():
            if column is not None and len(column) != len(values):
                raise UsageError(f"{len(column)} {name} for {len(values)} values: give one each")
        if timestamps_ms is None:
            timestamps_ms = [self._wall_ms()] * len(values)
        is_of_one = keys is None or partition is not None
        if headers is None and is_of_one and _are_plain(values, keys, timestamps_ms):
            return await self._send_plain(topic, values, keys, partition, timestamps_ms)
        deliveries = Deliveries(len(values))
        for index, value in enumerate(values):
            key = None if keys is None else keys[index]
            named = () if headers is None else headers[index]
            time = timestamps_ms[index]
            sent = self.send(
                topic, value, key=key, partition=partition, timestamp_ms=time, headers=named
            )
            deliveries.add(sent[0])
            await self.drain()
        return deliveries

    async def _send_plain(
        self,
        topic: str,
        values: Sequence[bytes],
        keys: Sequence[bytes] | None,
        partition: int | None,
        timestamps_ms: Sequence[int],
    ) -> Deliveries:
        count = len(values)
        deliveries = Deliveries(count)
        sizes = map(add, map(len, values), repeat(RECORD_OVERHEAD_BYTES))
        if keys is not None:
            sizes = map(add, sizes, map(len, keys))
        ends = list(accumulate(sizes, initial=0))
        position = 0
        while position < count:
            batch = self._open_batch(topic, partition, is_keyed=keys is not None)
            if batch is not None:
                # The sizes up to `stop` fit in: it is the last end that is not beyond the room.
                room_end = ends[position] + batch.room_bytes
                stop = bisect_right(ends, room_end, position) - 1
                if stop > position:
                    batch.extend(
                        None if keys is None else keys[position:stop],
                        values[position:stop],
                        timestamps_ms[position:stop],
                        ends[stop] - ends[position],
                    )
                    deliveries.add(batch)
                    position = stop
                    continue
            key = None if keys is None else keys[position]
            time = timestamps_ms[position]
            deliveries.add(self._send(topic, values[position], key, partition, time, ())[0])
            position += 1
            await self.drain()
        return deliveries

    def _open_batch(
        self, topic: str, partition: int | None, *, is_keyed: bool
    ) -> ProducerBatch | None:
        """A batch that plain records may be added to, as in `Producer.send`."""
        queues = self._open_topics.get(topic)
        if queues is None:
            return None
        if partition is None:
            batch = queues.sticky.open_batch
        elif 0 <= partition < len(queues.queues):
            batch = queues.queues[partition].open_batch
        else:
            return None
        if batch is None or not (batch.is_keyed if is_keyed else batch.is_plain):
            return None
        return batch

    async def drain(self) -> None:
        """Let batches be sent; wait while there is no room for more records.

        Costs almost nothing while there is room, so it can follow every `send`.
        """
        accumulator = self._accumulator
        if accumulator.batch_count - self._yielded_at >= self._batches_per_turn:
            self._yielded_at = accumulator.batch_count
            await asyncio.sleep(0)
        while self._admission.is_backlogged and not self._is_closed:
            assert self._room is not None
            self._room.clear()
            await self._room.wait()

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Wait until all that was sent before this call is acknowledged or has failed.

        Failures are not raised here, but by what `send` returned.
        Raises: TimedOutError if `timeout_ms` is over first; the records are still sent.
        """
        self._check_open()
        await self._flush(timeout_ms)

    async def _flush(self, timeout_ms: int | None) -> None:
        groups = [*self._accumulator.unfinished, *self._admission.groups()]
        accumulator, sender = self._accumulator, self._sender
        assert sender is not None
        accumulator.flush_count += 1
        sender.wake()
        try:
            async with _timeout(timeout_ms):
                await finished(groups)
        except TimeoutError:
            raise TimedOutError(f"not everything was acknowledged within {timeout_ms} ms") from None
        finally:
            accumulator.flush_count -= 1

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send all batches, for at most `timeout_ms` (by default `delivery_timeout_ms`), and end.

        Records that are not acknowledged by then fail with ClosedError, at once if the call is
        cancelled. A second call waits for the first, whose time it may shorten.
        """
        if self._closed is not None:
            self._shorten_close(timeout_ms)
            await asyncio.shield(self._closed)
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._is_closed = True
        # So that `send` makes the check that `_send` makes.
        self._open_topics = {}
        try:
            if self._sender is not None and self._sender.failure is None:
                await self._finish(timeout_ms)
        finally:
            try:
                await run_to_end(self._shut_down())
            finally:
                self._closed.set_result(None)

    async def _finish(self, timeout_ms: int | None) -> None:
        """Send all batches within the time; an open transaction is aborted instead."""
        try:
            async with _timeout(timeout_ms) as self._close_limit:
                if self._transactions is not None:
                    await self._transactions.close()
                await self._flush(None)
        except TimeoutError:
            pass  # records that are left fail with ClosedError
        finally:
            self._close_limit = None

    def _shorten_close(self, timeout_ms: int | None) -> None:
        limit = self._close_limit
        if timeout_ms is None or limit is None:
            return
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        earlier = limit.when()
        if earlier is None or deadline < earlier:
            limit.reschedule(deadline)

    async def _shut_down(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._sender is not None:
            self._sender.abort_incomplete_batches(
                ClosedError("the producer was closed before the record was acknowledged")
            )
        if self._room is not None:
            self._room.set()
        if self._sender_task is not None:
            self._sender_task.cancel()
            await asyncio.gather(self._sender_task, return_exceptions=True)
        if self._owns_client:
            await self._client.close()

    async def init_transactions(self) -> None:
        """Become the only producer with this `transactional_id`; once, after `start`.

        A transaction that a former instance left open is aborted.
        Raises: TimedOutError after `max_block_ms`: call it again; errors of the coordinator.
        """
        await self._transactional().initialize()

    async def begin_transaction(self) -> None:
        """Open a transaction: every record from here on belongs to it.

        Raises: IllegalStateError; FencedError if another producer has taken over.
        """
        calls = self._transactional()
        await calls.has_ended()
        calls.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer's offsets with the transaction, or not at all.

        Raises: CommitFailedError if the consumer lost its membership: abort; TimedOutError.
        """
        await self._transactional().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Flush, then commit the transaction: all of its records become visible at once.

        Raises: AbortableError if a record failed: abort; TimedOutError after `max_block_ms`: call
        it again; FencedError.
        """
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Abort the transaction; records that were not sent yet fail with AbortableError.

        Raises: TimedOutError after `max_block_ms`: call it again; FencedError.
        """
        await self._transactional().abort()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction():` begins, then commits, or aborts on an exception.

        Calls `init_transactions` the first time if that was not done.
        """
        return self._transactional().transaction()

    def _transactional(self) -> TransactionCalls:
        self._check_open()
        if self._transactions is None:
            raise IllegalStateError("set transactional_id to use transactions")
        return self._transactions

    @property
    def buffered_bytes(self) -> int:
        """How much of `buffer_memory` is in use."""
        return self._accumulator.used_bytes

    @property
    def internals(self) -> ProducerInternals:
        """The parts of a started producer, for tests; not part of the public API."""
        assert self._sender is not None
        assert self._sender_task is not None
        return ProducerInternals(self._admission, self._sender, self._sender_task)

    async def partitions_for(self, topic: str) -> tuple[PartitionMetadata, ...]:
        """The topic's partitions, by number.

        Raises: NotFoundError, AuthorizationError or TimedOutError after `max_block_ms`.
        """
        self._check_open()
        check_topic_name(topic)
        self._note_wanted(topic)
        found = await self._client.wait_for_topic(topic, timeout_ms=self.settings.max_block_ms)
        return tuple(found.partitions.values())

    def _note_wanted(self, topic: str) -> None:
        self._wanted_at_ms[topic] = self._monotonic_ms()
        self._client.want_topics([topic])

    def _forget_idle_topics(self) -> None:
        """Request metadata no longer for topics that are not used; they may be deleted."""
        since_ms = self._monotonic_ms() - METADATA_IDLE_MS
        idle = [
            name
            for name, wanted_at_ms in self._wanted_at_ms.items()
            if wanted_at_ms < since_ms and self._admission.is_idle(name, since_ms)
        ]
        for name in idle:
            del self._wanted_at_ms[name]
            self._admission.forget(name)
        # Another user of a shared client may want them.
        if idle and self._owns_client:
            self._client.set_wanted_topics(self._wanted_at_ms)

    def _want_topic(self, topic: str) -> None:
        self._note_wanted(topic)
        if topic in self._admission.topics:
            self._client.request_refresh()

    def _on_metadata(self, cluster: ClusterMetadata) -> None:
        self._admission.update(cluster)
        self._forget_idle_topics()
        if self._sender is not None:
            self._sender.wake()


def _are_plain(
    values: Sequence[Any], keys: Sequence[Any] | None, timestamps_ms: Sequence[Any]
) -> bool:
    """Whether all of them are valid as they are."""
    if not values or set(map(type, values)) != {bytes}:
        return False
    if keys is not None and set(map(type, keys)) != {bytes}:
        return False
    if set(map(type, timestamps_ms)) != {int}:
        return False
    return bool(min(timestamps_ms) >= 0 and max(timestamps_ms) <= TIMESTAMP_MS_MAX)


def _is_plain_time(timestamp_ms: int) -> bool:
    """Whether the timestamp is valid as it is."""
    return timestamp_ms.__class__ is int and 0 <= timestamp_ms <= TIMESTAMP_MS_MAX


def _timeout(timeout_ms: int | None) -> asyncio.Timeout:
    return asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)

"""Fetches records: one request in flight per broker, the next one while its response is read.

A thin shell around pure parts: the session with each broker (`fetch_session.py`), what a response
means (`fetch_response_handler.py`), the buffer (`fetch_buffer.py`). Not here: waiting
(`poll_loop.py`).

Source: CON-4, CON-6, CON-12; KIP-227 (sessions), KIP-392 (reading from replicas of
the same rack), KIP-951 (new leaders named in responses).
Invariants: no broker has more than one fetch of ours in flight; a broker is sent one only when all
of its partitions have room, since a response that waits for data of some would hold up the others;
the buffered bytes of one broker stay below its share of `prefetch_bytes_max`, except for one
response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas_client.cluster.metadata import Node
from barnabas_client.config.consumer_settings import ConsumerSettings
from barnabas_client.consumer.fetch_buffer import FetchBuffer
from barnabas_client.consumer.fetch_response_handler import FetchResponseHandler
from barnabas_client.consumer.fetch_session import FetchLimits, FetchSession, PartitionFetch
from barnabas_client.consumer.partition_state import PartitionState
from barnabas_client.consumer.positions import PositionFinder
from barnabas_client.consumer.subscription_state import SubscriptionState
from barnabas_client.errors import (
    BarnabasError,
    ClientBrokenError,
    ClosedError,
    RetriableError,
)
from barnabas_client.network.client import Client
from barnabas_protocol.api import ApiKey
from barnabas_protocol.backoff import ExponentialBackoff
from barnabas_protocol.fetch_metadata import SESSION_ERRORS
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages.fetch import FetchResponse

# How long closing waits for the requests that end sessions. Behind a fetch that waits for records
# they take longer, and brokers drop sessions by themselves, too.
_CLOSE_WAIT_MS: Final = 50
# After a fetch from a follower that a leader has named fails, requests do not carry our rack for
# this long, so that leaders return the records themselves: they would name that follower again
# until it is fenced.
_LEADERS_ONLY: Final = ExponentialBackoff(1000, 60_000)


class _Broker:
    """One broker that is fetched from."""

    __slots__ = ("attempt", "in_flight", "ready_task", "retry_at_ms", "session")

    def __init__(self) -> None:
        self.session = FetchSession()
        self.in_flight: asyncio.Future[FetchResponse] | None = None
        self.ready_task: asyncio.Task[None] | None = None
        self.retry_at_ms = 0
        self.attempt = 0


class Fetcher:
    """Keeps the buffer of one consumer filled."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        positions: PositionFinder,
        *,
        on_data: Callable[[], None],
    ) -> None:
        """`on_data` is called when there may be records to return."""
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._buffer = buffer
        self._positions = positions
        self._on_data = on_data
        self._clock = client.environment.clock
        self._brokers: dict[int, _Broker] = {}
        self._handler = FetchResponseHandler(client, settings, subscription, buffer, positions)
        self._retry_timer: asyncio.TimerHandle | None = None
        self._retry_at_ms = 0
        self._error: BarnabasError | None = None
        self._is_closed = False
        self._leaders_only_until_ms = 0
        self._isolation_level = int(settings.isolation_level == "read_committed")

    def send_fetches(self) -> None:
        """Send a fetch to every broker that has none of ours and whose partitions have room."""
        if self._is_closed or self._client.has_ended:
            return
        self._buffer.has_new_room = False
        now_ms = self._clock.monotonic_ms()
        wanted, source_count = self._wanted_by_broker(now_ms)
        if not wanted:
            return
        share_bytes = max(1, self._settings.prefetch_bytes_max // source_count)
        buffered = self._buffer.buffered_bytes_by_node()
        for node_id, partitions in wanted.items():
            broker = self._brokers.get(node_id)
            if broker is None:
                broker = self._brokers[node_id] = _Broker()
            if broker.in_flight is not None or broker.ready_task is not None:
                continue
            if now_ms < broker.retry_at_ms:
                self._retry_at(broker.retry_at_ms)
                continue
            room_bytes = share_bytes - buffered.get(node_id, 0)
            if buffered.get(node_id) and room_bytes < share_bytes // 2:
                if self._buffer.has_readable(node_id):
                    continue
                # Only paused partitions take the room, which would stop the others forever.
                self._buffer.drop_paused(node_id)
                room_bytes = share_bytes
            self._send_fetch(
                node_id, broker, partitions, min(room_bytes, self._settings.fetch_max_bytes)
            )

    @property
    def has_error(self) -> bool:
        """Whether `raise_error` would."""
        return self._error is not None

    def raise_error(self) -> None:
        """Raise an error of fetching that is not retriable; then it is tried again."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def close(self) -> None:
        """Drop what is in flight, and end the sessions at the brokers."""
        self._is_closed = True
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        tasks = [broker.ready_task for broker in self._brokers.values() if broker.ready_task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        finals = [
            asyncio.ensure_future(final)
            for node_id, broker in self._brokers.items()
            if (final := self._final_request(node_id, broker)) is not None
        ]
        for broker in self._brokers.values():
            if broker.in_flight is not None:
                broker.in_flight.cancel()
        if finals:
            _, late = await asyncio.wait(finals, timeout=_CLOSE_WAIT_MS / 1000)
            for future in late:
                future.cancel()
            await asyncio.gather(*finals, return_exceptions=True)
        self._brokers.clear()

    def _wanted_by_broker(
        self, now_ms: int
    ) -> tuple[dict[int, dict[TopicPartition, PartitionFetch]], int]:
        """What to fetch, from brokers whose partitions all have room; the number of brokers."""
        first: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        later: dict[int, dict[TopicPartition, PartitionFetch]] = {}
        full: set[int] = set()
        room_bytes = self._settings.max_partition_fetch_bytes
        for partition, state in self._subscription.assigned.items():
            if not state.is_fetchable:
                continue
            fetch_offset = self._buffer.fetch_offset(partition, state)
            if state.stop_offset is not None and fetch_offset >= state.stop_offset:
                continue
            found = self._find_source(partition, state, now_ms)
            if found is None:
                continue
            node_id, leader_epoch = found
            buffered_bytes = self._buffer.buffered_bytes(partition)
            if buffered_bytes and buffered_bytes >= room_bytes:
                full.add(node_id)
                continue
            topic = self._client.cluster.topics.get(partition.topic)
            # Those without data come first: a broker may fill its response with the first ones.
            group = later if buffered_bytes else first
            group.setdefault(node_id, {})[partition] = PartitionFetch(
                ZERO_UUID if topic is None else topic.topic_id,
                fetch_offset,
                leader_epoch,
                self._buffer.fetched_epoch(partition, state),
                room_bytes,
            )
        for node_id, partitions in later.items():
            first.setdefault(node_id, {}).update(partitions)
        source_count = len(first.keys() | full)
        for node_id in full:
            first.pop(node_id, None)
        return first, source_count

    def _find_source(
        self, partition: TopicPartition, state: PartitionState, now_ms: int
    ) -> tuple[int, int] | None:
        """The broker to fetch from and the leader epoch; None if the partition has to wait."""
        if now_ms < state.retry_at_ms:
            self._retry_at(state.retry_at_ms)
            return None
        known = self._client.cluster.partition(*partition)
        if known is None or known.leader_id not in self._client.cluster.nodes:
            state.retry_at_ms = now_ms + self._client.backoff_ms(0)
            self._retry_at(state.retry_at_ms)
            self._client.request_refresh()
            return None
        if state.see_leader_epoch(known.leader_epoch):
            self._positions.request()
            return None
        if self._buffer.has_error(partition):
            return None
        replica_id = state.read_replica(now_ms)
        if replica_id in self._client.cluster.nodes:
            return replica_id, known.leader_epoch
        if replica_id >= 0:
            # It is new or has come back: the leader knew it before our metadata.
            state.preferred_replica_id = -1
            self._leaders_only_until_ms = now_ms + _LEADERS_ONLY.wait_ms(0)
            self._client.request_refresh()
        return known.leader_id, known.leader_epoch

    def _send_fetch(
        self,
        node_id: int,
        broker: _Broker,
        partitions: dict[TopicPartition, PartitionFetch],
        max_bytes: int,
    ) -> None:
        version = self._client.known_version(node_id, ApiKey.FETCH)
        if version is None or not self._client.is_ready(node_id):
            broker.ready_task = asyncio.get_running_loop().create_task(
                self._make_ready(node_id, broker), name=f"fetch-ready-{node_id}"
            )
            return
        is_leaders_only = self._clock.monotonic_ms() < self._leaders_only_until_ms
        request, version = broker.session.build(
            partitions,
            version,
            FetchLimits(
                max_wait_ms=self._settings.fetch_max_wait_ms,
                min_bytes=self._settings.fetch_min_bytes,
                max_bytes=max_bytes,
                isolation_level=self._isolation_level,
                rack_id="" if is_leaders_only else self._settings.client_rack or "",
            ),
        )
        try:
            future = self._client.send_now(
                node_id, request, version, timeout_ms=self._settings.request_timeout_ms
            )
        except BarnabasError as error:
            broker.session.fail()
            self._fail(node_id, broker, error)
            return
        broker.in_flight = future
        future.add_done_callback(lambda done: self._on_response(node_id, broker, done))

    async def _make_ready(self, node_id: int, broker: _Broker) -> None:
        """Connect, then send fetches."""
        try:
            await self._client.version(node_id, ApiKey.FETCH)
            await self._client.ready(node_id)
        except BarnabasError as error:
            broker.ready_task = None
            self._fail(node_id, broker, error)
        else:
            broker.ready_task = None
            self.send_fetches()

    def _on_response(
        self, node_id: int, broker: _Broker, future: asyncio.Future[FetchResponse]
    ) -> None:
        if future.cancelled() or self._is_closed:
            broker.in_flight = None
            if not future.cancelled():
                future.exception()  # retrieved, so that asyncio does not log it
            return
        try:
            self._handle_response(node_id, broker, future.result())
        except BarnabasError as error:
            broker.session.fail()
            self._fail(node_id, broker, error)
        except Exception as error:
            # Nobody awaits this callback: the next poll raises the bug, ours or the broker's.
            broken = ClientBrokenError(
                f"a fetch response of broker {node_id} made no sense: {error!r}"
            )
            broken.__cause__ = error
            broker.session.fail()
            self._fail(node_id, broker, broken)
        # Only now: nothing may be fetched while the response is handled.
        broker.in_flight = None
        self._on_data()
        self.send_fetches()

    def _handle_response(self, node_id: int, broker: _Broker, response: FetchResponse) -> None:
        requested = broker.session.partitions
        responses = broker.session.accept(response)
        if responses is None:
            if broker.attempt or response.error_code not in SESSION_ERRORS:
                # Throttled, or a broker in trouble: not again at once.
                self._wait(broker)
            broker.attempt += 1
            return
        broker.attempt = 0
        now_ms = self._clock.monotonic_ms()
        self._handler.endpoints = [
            Node(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
            for one in response.node_endpoints
        ]
        for partition, data in responses:
            self._handler.handle(node_id, partition, requested[partition], data, now_ms)

    def _fail(self, node_id: int, broker: _Broker, error: BarnabasError) -> None:
        """A fetch failed: its partitions wait, and a follower that was read from is dropped."""
        if isinstance(error, ClosedError):
            return
        was_follower = False
        for state in self._subscription.assigned.values():
            if state.preferred_replica_id == node_id:
                state.preferred_replica_id = -1
                was_follower = True
        if was_follower:
            pause_ms = _LEADERS_ONLY.wait_ms(broker.attempt)
            self._leaders_only_until_ms = self._clock.monotonic_ms() + pause_ms
        self._wait(broker)
        if isinstance(error, RetriableError):
            self._client.request_refresh()
        else:
            self._error = error
            self._on_data()

    def _wait(self, broker: _Broker) -> None:
        broker.retry_at_ms = self._clock.monotonic_ms() + self._client.backoff_ms(broker.attempt)
        broker.attempt += 1
        self._retry_at(broker.retry_at_ms)

    def _retry_at(self, at_ms: int) -> None:
        """Send fetches again then; one timer serves all partitions."""
        if self._retry_timer is not None:
            if self._retry_at_ms <= at_ms:
                return
            self._retry_timer.cancel()
        self._retry_at_ms = at_ms
        delay_ms = max(1, at_ms - self._clock.monotonic_ms())
        loop = asyncio.get_running_loop()
        self._retry_timer = loop.call_later(delay_ms / 1000, self._on_retry_timer)

    def _on_retry_timer(self) -> None:
        self._retry_timer = None
        self.send_fetches()

    def _final_request(self, node_id: int, broker: _Broker) -> asyncio.Future[FetchResponse] | None:
        request = broker.session.build_final()
        version = self._client.known_version(node_id, ApiKey.FETCH)
        if request is None or version is None or not self._client.is_ready(node_id):
            return None
        try:
            # A client that is shared must not lose its connection over this.
            timeout_ms = self._settings.request_timeout_ms
            return self._client.send_now(node_id, request, version, timeout_ms=timeout_ms)
        except BarnabasError:
            return None

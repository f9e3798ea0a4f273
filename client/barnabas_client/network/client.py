"""The client underneath producer, consumer and admin: requests to brokers, and what all need.

One per role object, in one asyncio loop; not thread-safe. Not here: what the requests mean. Error
codes in responses are the callers' business, except those of Metadata and FindCoordinator.

Invariants: `cluster.version` only rises; every task started here has ended after `close`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from barnabas_client.cluster.metadata import ClusterMetadata, Node, TopicMetadata
from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import (
    BarnabasError,
    BrokerUnreachableError,
    ClosedError,
    DisconnectedError,
    IllegalStateError,
    NotFoundError,
    RetriableError,
    StaleMetadataError,
    error_for,
)
from barnabas_client.network.closing import run_to_end
from barnabas_client.network.coordinators import CoordinatorType
from barnabas_client.network.network_client import newest_version
from barnabas_client.network.node_connections import broker_id
from barnabas_client.network.retrying import retrying
from barnabas_client.network.running_client import RunningClient
from barnabas_protocol.api import ApiKey
from barnabas_protocol.backoff import RETRY_JITTER, ExponentialBackoff
from barnabas_protocol.errors import RETRIABLE, ErrorCode
from barnabas_protocol.schema import Message

__all__ = ["Client", "CoordinatorType"]

_log = logging.getLogger(__name__)
_numbers_by_role: Final[dict[str, itertools.count[int]]] = {}

T = TypeVar("T")


class Client:
    """Connections to a cluster and its newest metadata."""

    def __init__(self, settings: ClientSettings, *, environment: Environment | None = None) -> None:
        self.settings = settings
        self.environment = environment or Environment()
        self.client_id = settings.client_id or _next_client_id(settings.role)
        self._cache = MetadataCache()
        self._callbacks: list[Callable[[ClusterMetadata], None]] = []
        self._backoff = ExponentialBackoff(
            settings.retry_backoff_ms, settings.retry_backoff_max_ms, RETRY_JITTER
        )
        self._started: RunningClient | None = None
        self._is_closed = False

    @property
    def cluster(self) -> ClusterMetadata:
        """The newest metadata."""
        return self._cache.cluster

    @property
    def has_ended(self) -> bool:
        """Whether it is closed, or the program ends without closing it: nothing new is begun."""
        started = self._started
        return self._is_closed or (started is not None and started.refresher.has_ended)

    async def start(self) -> None:
        """Find the cluster through the bootstrap servers.

        May be repeated when it has failed or was cancelled.
        Raises: BrokerUnreachableError after `default_api_timeout_ms`; at once what waiting does not
        cure: AuthenticationError, ConfigurationError, UnsupportedError.
        """
        if self._is_closed:
            raise ClosedError("the client is closed")
        if self._started is not None:
            await self.wait_for_version(0, timeout_ms=self.settings.default_api_timeout_ms)
            return
        self._started = started = RunningClient(
            self.settings,
            self.environment,
            self._cache,
            client_id=self.client_id,
            on_metadata=self._publish,
        )
        started.refresher.start()
        try:
            await started.refresher.refresh(self.settings.default_api_timeout_ms)
        except BaseException:
            self._started = None
            await run_to_end(started.close())
            raise

    async def close(self) -> None:
        """Fail what is in flight with ClosedError and leave nothing behind.

        Goes on to the end even if it is cancelled, which takes two seconds at most.
        """
        self._is_closed = True
        if self._started is not None:
            await run_to_end(self._started.close())

    # Requests

    async def request(
        self,
        node_id: int,
        request: Message,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """One attempt at one node: connect if need be, wait for room, send, await the response.

        Without a version it is the newest that both sides know. `timeout_ms` counts from the call;
        what is above `request_timeout_ms` also lets the broker take that long.
        Raises: BrokerUnreachableError, DisconnectedError, TimedOutError; UnsupportedError,
        AuthenticationError, ClosedError.
        """
        return await self.running.network.request(node_id, request, version, timeout_ms)

    def send_now(
        self, node_id: int, request: Message, version: int, *, timeout_ms: int
    ) -> asyncio.Future[Any]:
        """Send without a coroutine, while `is_ready(node_id)`; the future raises as `request`.

        Requests leave in the order of the calls. For a Produce with acks=0 it is None at once.
        """
        connection = self.running.network.connections.current(node_id)
        if connection is None:
            lost = asyncio.get_running_loop().create_future()
            lost.set_exception(DisconnectedError(f"broker {broker_id(node_id)} is not connected"))
            return lost
        return connection.send(request, version, timeout_ms)

    def is_ready(self, node_id: int) -> bool:
        """Whether a request can go out now: connected, logged in, not throttled, room."""
        started = self._started
        connection = None if started is None else started.network.connections.current(node_id)
        return connection is not None and connection.is_ready

    async def ready(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Connect if need be and wait until `is_ready`; raises as `request`."""
        timeout_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        await self.running.network.ready(node_id, timeout_ms)

    async def version(
        self, node_id: int, api: ApiKey, *, maximum: int | None = None, minimum: int = 0
    ) -> int:
        """The newest version of an API that both sides know; connects if need be.

        Raises: UnsupportedError naming the broker, the API and what it serves; as `request`.
        """
        network = self.running.network
        connection = await network.connected(node_id, self.settings.request_timeout_ms)
        return newest_version(connection, api, maximum=maximum, minimum=minimum)

    def known_version(self, node_id: int, api: ApiKey, *, maximum: int | None = None) -> int | None:
        """The same without waiting; None if there is no connection yet or it is not served."""
        connection = self.running.network.connections.current(node_id)
        return (
            None if connection is None else connection.state.versions.newest(api, maximum=maximum)
        )

    def finalized_features(self, node_id: int) -> Mapping[str, int]:
        """The features that the cluster has switched on, as the node reported; empty if unknown."""
        connection = self.running.network.connections.current(node_id)
        return {} if connection is None else connection.state.versions.features

    def in_flight_count(self, node_id: int) -> int:
        """How many requests wait for the node's responses."""
        connection = self.running.network.connections.current(node_id)
        return 0 if connection is None else len(connection.state.in_flight)

    def node(self, node_id: int) -> Node | None:
        """What is known of a node, also for the number that `coordinator` gave."""
        return self.running.network.node(node_id)

    async def request_any(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Send a request to the least loaded broker, to others if it fails, until the timeout.

        Raises: the last RetriableError at the timeout; UnsupportedError, AuthenticationError.
        """
        network = self.running.network

        async def attempt() -> Any:
            return await network.request_from_any(network.candidates(), request)

        return await self._within(attempt, timeout_ms)

    async def request_controller(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Send a request to the controller that Metadata names; look again when it is lost.

        NOT_CONTROLLER in the response is the caller's business.
        """

        async def attempt() -> Any:
            controller_id = self.cluster.controller_id
            if controller_id not in self.cluster.nodes:
                await self.refresh(timeout_ms=self.settings.request_timeout_ms)
                controller_id = self.cluster.controller_id
            if controller_id not in self.cluster.nodes:
                raise StaleMetadataError("the cluster has no controller at the moment")
            try:
                return await self.request(controller_id, request)
            except (DisconnectedError, BrokerUnreachableError):
                self.request_refresh()
                raise

        return await self._within(attempt, timeout_ms)

    # Coordinators

    async def coordinator(
        self, kind: CoordinatorType, key: str, *, timeout_ms: int | None = None
    ) -> int:
        """The node that coordinates a group or a transaction: a connection of its own.

        The number is for the other methods only; `node` gives the broker. Repeats while the
        coordinator is not available. Raises: the error of the code that the broker responds with.
        """
        coordinators = self.running.coordinators
        known = coordinators.known(kind, key)
        if known is not None:
            return known

        async def look() -> int:
            found = (await coordinators.find(kind, [key]))[key]
            if isinstance(found, BarnabasError):
                raise found
            return found

        return await self._within(look, timeout_ms)

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Look again next time: after NOT_COORDINATOR and its like, or a lost connection."""
        self.running.coordinators.forget(kind, key)

    # Metadata

    def want_topics(self, names: Iterable[str]) -> None:
        """Add topics to what every refresh requests; send one soon if a topic is new."""
        if self._cache.want(names) and self._started is not None:
            self._started.refresher.request(full=False)

    def set_wanted_topics(self, names: Iterable[str]) -> None:
        """Replace the topics that refreshes request; send one soon if a topic is new."""
        if self._cache.set_wanted(names) and self._started is not None:
            self._started.refresher.request(full=False)

    def want_all_topics(self, wants_all: bool) -> None:
        """Request all topics of the cluster from now on, for patterns; or no longer."""
        if self._cache.set_wants_all(wants_all) and self._started is not None:
            self.request_refresh()

    def request_refresh(self) -> None:
        """Have new metadata soon, in the background."""
        self.running.refresher.request()

    async def refresh(self, *, timeout_ms: int | None = None) -> ClusterMetadata:
        """Wait for metadata that is requested after this call."""
        return await self.running.refresher.refresh(self._api_timeout_ms(timeout_ms))

    async def wait_for_version(self, newer_than: int, *, timeout_ms: int) -> ClusterMetadata:
        """Wait for metadata with a higher version."""
        return await self.running.refresher.wait_for_version(newer_than, timeout_ms)

    async def wait_for_topic(self, name: str, *, timeout_ms: int) -> TopicMetadata:
        """Wait until a topic has partitions; it is wanted from now on.

        Raises: NotFoundError if the time is over and there is no such topic; what the brokers have
        against the topic at once (not authorized, not a valid name).
        """
        deadline_ms = self.environment.clock.monotonic_ms() + timeout_ms
        self.want_topics([name])
        topic = self.cluster.topics.get(name)
        if topic is not None and topic.error_code is not ErrorCode.NONE:
            self.request_refresh()
            topic = None  # what was wrong with it may be over
        version = self.cluster.version
        while topic is None or not topic.partitions:
            if topic is not None and topic.error_code not in (*RETRIABLE, ErrorCode.NONE):
                raise error_for(topic.error_code, f"topic {name!r} cannot be used")
            left_ms = deadline_ms - self.environment.clock.monotonic_ms()
            try:
                version = (await self.wait_for_version(version, timeout_ms=left_ms)).version
            except RetriableError:
                if topic is not None and topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    message = f"there is no topic {name!r}, not after {timeout_ms} ms either"
                    raise NotFoundError(message, topic.error_code) from None
                raise
            topic = self.cluster.topics.get(name)
        return topic

    def apply_leader_hint(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        endpoints: Iterable[Node] = (),
    ) -> bool:
        """Take over a newer leader that a Produce or Fetch response names (KIP-951).

        Returns whether it was news; otherwise the caller requests a refresh as before.
        """
        was_news = self._cache.apply_leader_hint(
            topic, partition, leader_id, leader_epoch, endpoints
        )
        if was_news:
            self.running.refresher.publish()
        return was_news

    def on_metadata(self, callback: Callable[[ClusterMetadata], None]) -> Callable[[], None]:
        """Call back after each new metadata; returns the function that ends it."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    def backoff_ms(self, attempt: int) -> int:
        """The wait before a repetition, counting attempts from 0."""
        return self._backoff.wait_ms(attempt, self.environment.random.random())

    @property
    def running(self) -> RunningClient:
        """The parts of a started client. Raises: ClosedError, IllegalStateError."""
        if self._is_closed:
            raise ClosedError("the client is closed")
        if self._started is None:
            raise IllegalStateError("the client is not started: await start() first")
        return self._started

    def _api_timeout_ms(self, timeout_ms: int | None) -> int:
        return self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms

    async def _within(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None) -> T:
        return await retrying(self, attempt, timeout_ms=self._api_timeout_ms(timeout_ms))

    def _publish(self, metadata: ClusterMetadata) -> None:
        for callback in list(self._callbacks):
            try:
                callback(metadata)
            except Exception:  # CLI-4: a callback never breaks the loop
                _log.exception("a callback for new metadata failed")


def _next_client_id(role: str) -> str:
    """`producer-1` and so on (CLI-8)."""
    return f"{role}-{next(_numbers_by_role.setdefault(role, itertools.count(1)))}"

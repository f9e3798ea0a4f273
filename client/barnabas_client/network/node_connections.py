"""A connection per node, made when it is needed, with backoff after failures.

Nodes are numbers: what Metadata calls them, negative ones for bootstrap addresses, and for
coordinators the node's number plus `COORDINATOR_BASE`, which gives them a connection of their own:
a heartbeat must not wait behind a fetch that waits for records (Kafka's Java consumer does the
same).

Invariants: at most one connection and one attempt per node; every task is owned here and gone after
`close`; after a failure the next attempt waits at least the backoff.
Source: KIP-144 and KIP-601 (reconnect backoff, set-up timeouts).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import BarnabasError, BrokerUnreachableError, ClosedError
from barnabas_client.network.connection import Connection, IdleError, again
from barnabas_client.network.login import Login
from barnabas_client.network.tls import TlsContexts, plain_at_tls_error, speaks_tls
from barnabas_protocol.backoff import RETRY_JITTER, ExponentialBackoff
from barnabas_protocol.connection.framing import SharedBuffer

COORDINATOR_BASE: Final = 1 << 32

_log: Final = logging.getLogger(__name__)

Address = tuple[str, int]


def broker_id(node_id: int) -> int:
    """The broker behind a node's number; negative for a bootstrap address."""
    return node_id - COORDINATOR_BASE if node_id >= COORDINATOR_BASE else node_id


@dataclass(slots=True)
class _Node:
    """What is remembered of a node over its connections."""

    connection: Connection | None = None
    attempt: asyncio.Task[None] | None = None
    waiters: list[asyncio.Future[Connection]] = field(default_factory=list)
    failures: int = 0
    retry_at_ms: int = 0
    error: BarnabasError | None = None


class NodeConnections:
    """All connections of one client."""

    def __init__(
        self,
        settings: ClientSettings,
        environment: Environment,
        *,
        client_id: str,
        software_version: str,
        tls: TlsContexts,
        login: Login | None,
        address_of: Callable[[int], Address | None],
        on_disconnect: Callable[[int, BarnabasError], None],
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._client_id = client_id
        self._software_version = software_version
        self._tls = tls
        self._login = login
        self._has_connected = False  # to anybody of the cluster
        self._address_of = address_of
        self._on_disconnect = on_disconnect
        self._shared_buffer = SharedBuffer()
        self._nodes: dict[int, _Node] = {}
        self._is_closed = False
        self._reconnect = ExponentialBackoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, RETRY_JITTER
        )
        self._setup = ExponentialBackoff(
            settings.socket_connection_setup_timeout_ms,
            settings.socket_connection_setup_timeout_max_ms,
            RETRY_JITTER,
        )

    def current(self, node_id: int) -> Connection | None:
        """The node's connection, if there is one that works."""
        node = self._nodes.get(node_id)
        return None if node is None else node.connection

    def open_ones(self) -> list[tuple[int, Connection]]:
        """All connections that work, with their nodes."""
        return [
            (node_id, node.connection)
            for node_id, node in self._nodes.items()
            if node.connection is not None
        ]

    def is_waiting(self, node_id: int, now_ms: int) -> bool:
        """Whether the node is left alone for now because it failed a moment ago."""
        node = self._nodes.get(node_id)
        return node is not None and node.connection is None and now_ms < node.retry_at_ms

    def last_error(self, node_id: int) -> BarnabasError | None:
        """Why the node's last connection or attempt failed."""
        node = self._nodes.get(node_id)
        return None if node is None else node.error

    async def connected(self, node_id: int) -> Connection:
        """The node's connection, made if need be; it may have no room at the moment.

        Waits out the backoff of earlier failures. Raises: what the attempt ends with.
        """
        if self._is_closed:
            raise ClosedError("the client is closed")
        node = self._nodes.setdefault(node_id, _Node())
        if node.connection is not None:
            return node.connection
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        node.waiters.append(waiter)
        if node.attempt is None:
            node.attempt = asyncio.create_task(
                self._connect(node_id, node), name=f"connect to node {node_id}"
            )
        try:
            return await waiter
        finally:
            if waiter in node.waiters:
                node.waiters.remove(waiter)

    def adopt(self, bootstrap_id: int, node_id: int) -> None:
        """Let the connection to a bootstrap address serve as that of the node that lives there."""
        old = self._nodes[bootstrap_id]
        assert old.connection is not None
        node = self._nodes.setdefault(node_id, _Node())
        if node.connection is None and node.attempt is None:
            node.connection, old.connection = old.connection, None
            node.connection.peer = _peer(node_id, *node.connection.address)
            node.connection.on_closed = self._closing(node_id, node, node.connection)

    def _closing(
        self, node_id: int, node: _Node, connection: Connection
    ) -> Callable[[BarnabasError], None]:
        def closed(error: BarnabasError) -> None:
            if node.connection is not connection:
                return
            node.connection = None
            if not isinstance(error, IdleError):
                self._take_failure(node, error)
                self._on_disconnect(node_id, error)

        return closed

    def release(self, node_id: int) -> None:
        """Close a connection that nobody needs any more, unless a response is on its way."""
        connection = self.current(node_id)
        if connection is not None and not connection.state.in_flight:
            connection.disconnect(IdleError(f"{connection.peer} is not needed any more"))

    def disconnect(self, node_id: int, error: BarnabasError) -> None:
        """Give the node's connection up, if there is one."""
        node = self._nodes.get(node_id)
        if node is not None and node.connection is not None:
            node.connection.disconnect(error)

    def disconnect_all(self, error: BarnabasError) -> None:
        """Give all connections up."""
        for node_id in list(self._nodes):
            self.disconnect(node_id, error)

    def forget(self, node_id: int) -> None:
        """Let go of a node that has moved to another address: that is no failure of its."""
        self.disconnect(node_id, IdleError("the broker has another address now"))

    async def close(self) -> None:
        """Close every connection and end every attempt."""
        self._is_closed = True
        nodes = list(self._nodes.values())
        attempts = [node.attempt for node in nodes if node.attempt is not None]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        for node in nodes:
            _settle(node, ClosedError("the client is closed"))
        open_ones = [node.connection for node in nodes if node.connection is not None]
        await asyncio.gather(*(connection.close() for connection in open_ones))
        self._nodes.clear()
        await asyncio.sleep(0)  # attempts that were ended close their sockets in the next turn

    async def _connect(self, node_id: int, node: _Node) -> None:
        """One attempt; settles those who wait for it and never raises."""
        try:
            wait_ms = node.retry_at_ms - self._environment.clock.monotonic_ms()
            if wait_ms > 0:
                await asyncio.sleep(wait_ms / 1000)
            connection = await self._open(node_id, node)
        except BarnabasError as error:
            node.attempt = None
            self._take_failure(node, error)
            _settle(node, error)
            self._on_disconnect(node_id, error)
            return
        except asyncio.CancelledError:
            node.attempt = None
            raise
        except Exception as error:  # e.g. a sasl_exchange of the caller's that is broken
            node.attempt = None
            failure = BrokerUnreachableError(f"cannot connect to node {node_id}: {error!r}")
            failure.__cause__ = error
            self._take_failure(node, failure)
            _settle(node, failure)
            return
        node.attempt = None
        node.connection = connection
        node.failures = node.retry_at_ms = 0
        node.error = None
        waiters, node.waiters = node.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(connection)

    async def _open(self, node_id: int, node: _Node) -> Connection:
        address = self._address_of(node_id)
        if address is None:
            raise BrokerUnreachableError(f"broker {broker_id(node_id)} is not known any more")
        host, port = address
        connection = Connection(
            _peer(node_id, host, port),
            self._settings,
            self._environment.clock,
            client_id=self._client_id,
            software_version=self._software_version,
            shared_buffer=self._shared_buffer,
            login=self._login,
            host=host,
        )
        connection.on_closed = self._closing(node_id, node, connection)
        timeout_ms = self._setup.wait_ms(node.failures, self._environment.random.random())
        try:
            await connection.open(host, port, await self._tls.current(), timeout_ms)
        except BrokerUnreachableError:
            # A broker that has served this client, or one of its cluster, is not looked at again.
            is_new = not self._has_connected and node.failures == 0
            is_plain = is_new and not self._settings.uses_tls
            if is_plain and connection.has_ended_unanswered and await speaks_tls(host, port):
                raise plain_at_tls_error(
                    _peer(node_id, host, port), self._settings.security_protocol
                ) from None
            raise
        self._has_connected = True
        return connection

    def _take_failure(self, node: _Node, error: BarnabasError) -> None:
        random = self._environment.random.random()
        wait_ms = self._reconnect.wait_ms(node.failures, random)
        _log.log(logging.DEBUG if node.failures else logging.INFO, "%s", error)
        node.failures += 1
        node.retry_at_ms = self._environment.clock.monotonic_ms() + wait_ms
        node.error = error


def _peer(node_id: int, host: str, port: int) -> str:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return address if node_id < 0 else f"broker {broker_id(node_id)} at {address}"


def _settle(node: _Node, error: BarnabasError) -> None:
    waiters, node.waiters = node.waiters, []
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(again(error))

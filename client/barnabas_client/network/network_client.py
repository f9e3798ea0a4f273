"""Which brokers there are, where they are, which gets the next request; and requests to them.

Invariants: a node's number leads to the address in the newest metadata, else to what a coordinator
look-up found; bootstrap addresses are used only while no broker is known or none can be reached
(`metadata_recovery_strategy`).
Source: CLI-1, CLI-7; KIP-899 and KIP-1102 (rebootstrap).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from barnabas_client.cluster.metadata import ClusterMetadata, Node
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import (
    BarnabasError,
    BrokerUnreachableError,
    DisconnectedError,
    RetriableError,
    TimedOutError,
    UnsupportedError,
)
from barnabas_client.network.connection import Connection
from barnabas_client.network.login import Login
from barnabas_client.network.node_connections import Address, NodeConnections, broker_id
from barnabas_client.network.tls import TlsContexts
from barnabas_protocol import codec
from barnabas_protocol.api import KNOWN, ApiKey
from barnabas_protocol.schema import Message

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap addresses are numbered downwards from here: -1 stands for "no leader"."""


class NetworkClient:
    """All brokers that a client may talk to."""

    def __init__(
        self,
        settings: ClientSettings,
        environment: Environment,
        *,
        client_id: str,
        software_version: str,
        tls: TlsContexts,
        login: Login | None,
        on_disconnect: Callable[[int, BarnabasError], None],
    ) -> None:
        self.settings = settings
        self._environment = environment
        self._metadata = ClusterMetadata()
        self._learned: dict[int, Node] = {}
        self.last_tried = ""
        """Which broker `request_from_any` tried last, for errors of those who wait for it."""
        self._bootstrap = {
            FIRST_BOOTSTRAP_ID - index: address for index, address in enumerate(settings.addresses)
        }
        self.connections = NodeConnections(
            settings,
            environment,
            client_id=client_id,
            software_version=software_version,
            tls=tls,
            login=login,
            address_of=self.address_of,
            on_disconnect=on_disconnect,
        )

    def address_of(self, node_id: int) -> Address | None:
        """Where a node is to be found; None if that is not known."""
        if node_id < 0:
            return self._bootstrap.get(node_id)
        node = self.node(node_id)
        return None if node is None else (node.host, node.port)

    def node(self, node_id: int) -> Node | None:
        """What is known of a broker, also if the number is that of a coordinator's connection."""
        broker = broker_id(node_id)
        return self._metadata.nodes.get(broker) or self._learned.get(broker)

    def learn(self, node: Node) -> None:
        """Take note of a broker that Metadata may not have named yet."""
        before = self.node(node.node_id)
        if before is None or (before.host, before.port) != (node.host, node.port):
            self._learned[node.node_id] = node

    def update_metadata(self, metadata: ClusterMetadata) -> None:
        """Go by new metadata: connections to addresses that no node has any more are given up."""
        self._metadata = metadata
        for node_id in metadata.nodes:
            self._learned.pop(node_id, None)
        for node_id, connection in self.connections.open_ones():
            address = self.address_of(node_id)
            if address is not None and address != connection.address:
                self.connections.forget(node_id)
        homes = {(node.host, node.port): node.node_id for node in metadata.nodes.values()}
        for bootstrap_id, address in self._bootstrap.items():
            if self.connections.current(bootstrap_id) is not None:
                if address in homes:
                    self.connections.adopt(bootstrap_id, homes[address])
                self.connections.release(bootstrap_id)

    def rebootstrap(self) -> None:
        """Forget every broker; only the bootstrap addresses count."""
        self._metadata = ClusterMetadata()
        self._learned.clear()
        self.connections.disconnect_all(
            DisconnectedError("the client begins anew from its bootstrap servers")
        )

    def candidates(self) -> list[int]:
        """The known brokers, the least loaded first; those that fail come last."""
        now_ms = self._environment.clock.monotonic_ms()
        shuffled = sorted(self._metadata.nodes)
        self._environment.random.shuffle(shuffled)

        def load(node_id: int) -> tuple[int, int]:
            connection = self.connections.current(node_id)
            if connection is not None:
                ready = connection.is_ready
                return (0 if ready else 1), len(connection.state.in_flight)
            return (3 if self.connections.is_waiting(node_id, now_ms) else 2), 0

        return sorted(shuffled, key=load)

    def bootstrap_candidates(self) -> list[int]:
        """The bootstrap addresses, beginning with a random one."""
        ids = list(self._bootstrap)
        start = self._environment.random.randrange(len(ids))
        return ids[start:] + ids[:start]

    async def connected(self, node_id: int, timeout_ms: int) -> Connection:
        """The node's connection, through its handshake, with or without room at the moment.

        Raises: BrokerUnreachableError, TimedOutError, AuthenticationError, ...
        """
        connection = self.connections.current(node_id)
        if connection is not None:
            return connection
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.connections.connected(node_id)
        except TimeoutError:
            raise self._not_in_time(node_id, timeout_ms) from None

    async def ready(self, node_id: int, timeout_ms: int) -> Connection:
        """The node's connection with room for a request; raises as `connected`."""
        connection = self.connections.current(node_id)
        if connection is not None and connection.is_ready:
            return connection
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    connection = await self.connections.connected(node_id)
                    await connection.wait_until_ready()
                    if connection.is_ready:
                        return connection
        except TimeoutError:
            raise self._not_in_time(node_id, timeout_ms) from None

    def _not_in_time(self, node_id: int, timeout_ms: int) -> BarnabasError:
        cause = self.connections.last_error(node_id)
        address = self.address_of(node_id)
        where = f"broker {broker_id(node_id)}" if node_id >= 0 else str(address)
        if cause is None:
            return TimedOutError(f"{where} was not ready for a request within {timeout_ms} ms")
        return BrokerUnreachableError(f"{where} is out of reach: {cause.message}")

    async def request(
        self, node_id: int, request: Message, version: int | None, timeout_ms: int | None
    ) -> Any:
        """One attempt at one node; see `Client.request`."""
        patience_ms = self.settings.request_timeout_ms
        if timeout_ms is not None and timeout_ms < patience_ms:
            # The caller gives up early, the connection need not: the response may still come.
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self._request(node_id, request, version, patience_ms)
            except TimeoutError:
                raise TimedOutError(
                    f"no response from broker {broker_id(node_id)} within {timeout_ms} ms"
                ) from None
        return await self._request(node_id, request, version, timeout_ms or patience_ms)

    async def _request(
        self, node_id: int, request: Message, version: int | None, timeout_ms: int
    ) -> Any:
        connection = await self.ready(node_id, timeout_ms)
        if version is None:
            version = newest_version(connection, codec.api_key_of(type(request)))
        return await connection.send(request, version, timeout_ms)

    async def request_from_any(
        self,
        node_ids: Iterable[int],
        request: Message,
        check: Callable[[Any], RetriableError | None] | None = None,
    ) -> Any:
        """Send a request to one after the other until one responds.

        A broker whose response `check` refuses is left, and its connection given up.
        Raises: BrokerUnreachableError naming them all if none does; what is not retriable at once.
        """
        causes = {}
        for node_id in node_ids:
            self.last_tried = self._place(node_id)
            try:
                response = await self.request(node_id, request, None, None)
            except RetriableError as error:
                causes[node_id] = error
                continue
            refusal = None if check is None else check(response)
            if refusal is None:
                return response
            causes[node_id] = refusal
            self.connections.disconnect(node_id, refusal)
        if not causes:
            raise BrokerUnreachableError("no broker of the cluster is known")
        places = ", ".join(self._place(node_id) for node_id in causes)
        last = list(causes.values())[-1]
        raise BrokerUnreachableError(
            f"no broker can be reached, tried {places}; the last cause: {last.message}"
        ) from last

    def _place(self, node_id: int) -> str:
        address = self.address_of(node_id)
        return f"broker {node_id}" if address is None else f"{address[0]}:{address[1]}"


def newest_version(
    connection: Connection, api: ApiKey, *, maximum: int | None = None, minimum: int = 0
) -> int:
    """The newest version that both sides know.

    Raises: UnsupportedError naming the broker, what it serves and what is needed.
    """
    versions = connection.state.versions
    version = versions.newest(api, maximum=maximum, minimum=minimum)
    if version is not None:
        return version
    low, high = KNOWN[api]
    low, high = max(low, minimum), high if maximum is None else min(high, maximum)
    offered = versions.ranges.get(api)
    serves = "does not serve it" if offered is None else f"serves {offered[0]} to {offered[1]}"
    needed = f"{low} to {high}" if low < high else f"{low}"
    raise UnsupportedError(f"{api.name} version {needed} is needed, but {connection.peer} {serves}")

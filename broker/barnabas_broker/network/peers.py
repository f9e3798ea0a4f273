"""Requests from this broker to others, over connections that are made when they are needed.

One connection for each node and channel: a channel is a name for requests that may wait for one
another, since a server responds in order. It is kept until it ends, the node's address changes or
`disconnect` is called, and made again by the next request; nobody retries here.

Source: NET-7; Kafka's NodeToControllerChannelManager and replica fetchers also keep one connection
for each purpose.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from barnabas_broker.env.network import Network
from barnabas_broker.network.peer_connection import PeerConnection, PeerLostError
from barnabas_broker.network.tls_transport import EncryptionTurns
from barnabas_broker.security.broker_users import BrokerLogin
from barnabas_protocol.connection.framing import SharedBuffer

Address = tuple[str, int]


class PeerUnreachableError(OSError):
    """A request has no response, and whether it was carried out is not known if it `was_sent`.

    `was_refused`: the node's machine refuses the connection, as nobody listens there.
    """

    def __init__(
        self, node_id: int, reason: str, *, was_refused: bool = False, was_sent: bool = True
    ) -> None:
        super().__init__(f"node {node_id}: {reason}")
        self.node_id = node_id
        self.was_refused = was_refused
        self.was_sent = was_sent


class Peers:
    """The other brokers, as seen from this one."""

    def __init__(
        self,
        network: Network,
        *,
        resolve: Callable[[int], Address | None],
        client_id: str,
        request_bytes_max: int = 100 * 1024 * 1024,
        context: Callable[[], ssl.SSLContext] | None = None,
        encryption_turns: EncryptionTurns | None = None,
    ) -> None:
        """Make one for a broker; `context` gives that of the next connection, if it is of TLS.

        `resolve` gives the address of a node, None for one that is not known (yet). A response may
        hold a batch as large as a request beyond its own limit, so it may be twice as large.
        """
        self.on_lost: list[Callable[[int], None]] = []
        """Called with the node to which a connection was refused, lost, or silent for too long."""
        self._network = network
        self._resolve = resolve
        self._client_id = client_id
        self._context = context
        self.login: BrokerLogin | None = None
        """How this broker logs in with others, where they want that."""
        self._encryption_turns = encryption_turns
        self._response_bytes_max = min(2 * request_bytes_max, (1 << 31) - 1)
        self._shared_buffer = SharedBuffer()
        self._connections: dict[tuple[int, str], PeerConnection] = {}
        self._ended: list[PeerConnection] = []  # of them something is left in the loop
        self._is_closed = False

    def request(
        self, node_id: int, message: Any, version: int, *, channel: str, timeout_ms: int
    ) -> asyncio.Future[Any]:
        """Send a request message; the future is the response message.

        Requests on one channel are sent in the order of the calls, without waiting for responses.
        Fields of bytes and records are slices of the response's frame. A future and not a
        coroutine: followers send requests without end, and need no task each time.
        Its exception is a PeerUnreachableError; the connection is closed then.
        """
        try:
            return self._connection(node_id, channel).send(message, version, timeout_ms)
        except (PeerLostError, PeerUnreachableError) as error:
            response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            response.set_exception(_unreachable(node_id, error))
            response.exception()  # the caller may be cancelled before it looks
            return response

    def _connection(self, node_id: int, channel: str) -> PeerConnection:
        if self._is_closed:
            raise PeerUnreachableError(node_id, "this broker stops", was_sent=False)
        address = self._resolve(node_id)
        if address is None:
            raise PeerUnreachableError(node_id, "its address is not known", was_sent=False)
        key = node_id, channel
        connection = self._connections.get(key)
        if connection is not None and connection.address != address:
            self._drop(key)
            connection = None
        if connection is None:
            connection = self._connections[key] = PeerConnection(
                self._network,
                address,
                self._shared_buffer,
                client_id=self._client_id,
                response_bytes_max=self._response_bytes_max,
                failure=lambda error: _unreachable(node_id, error),
                on_end=lambda error: self._connection_ended(key),
                context=None if self._context is None else self._context(),
                encryption_turns=self._encryption_turns,
                login=self.login,
            )
        return connection

    def _connection_ended(self, key: tuple[int, str]) -> None:
        self._forget(self._connections.pop(key))
        for callback in self.on_lost:
            callback(key[0])

    def _drop(self, key: tuple[int, str]) -> None:
        connection = self._connections.pop(key)
        connection.close()
        self._forget(connection)

    def _forget(self, connection: PeerConnection) -> None:
        self._ended.append(connection)
        self._ended = [ended for ended in self._ended if not ended.is_gone]

    def disconnect(self, node_id: int) -> None:
        """Close the connections to a node; requests in flight fail with PeerUnreachableError."""
        for key in [key for key in self._connections if key[0] == node_id]:
            self._drop(key)

    async def close(self) -> None:
        """Close everything; requests from now on fail."""
        self._is_closed = True
        for key in list(self._connections):
            self._drop(key)
        await asyncio.gather(*(ended.wait_ended() for ended in self._ended))
        self._ended.clear()


def _unreachable(node_id: int, error: PeerLostError | PeerUnreachableError) -> PeerUnreachableError:
    if isinstance(error, PeerUnreachableError):
        return error
    unreachable = PeerUnreachableError(
        node_id, str(error), was_refused=error.was_refused, was_sent=error.was_sent
    )
    unreachable.__cause__ = error
    return unreachable

"""One outbound connection to another broker: requests out, responses in, in order.

The shell around `ClientConnection`: transport, timers and futures. Requests that come while the
connection is being made are sent in their order once it is. Responses come in the order of the
requests, as every server of Kafka's protocol gives them; anything else ends the connection.

Invariants:
- Each request ends once: with its response, or with `PeerLostError` when the connection is refused,
  lost or silent for too long. A request that is late ends the connection: what comes behind it
  cannot be earlier, and a stream cannot be cut in its middle.
- A request whose caller has gone keeps its place and its deadline, since its response still comes.
- Not more than `IN_FLIGHT_MAX` requests wait.

Source: KIP-595 and Kafka's inter-broker channels send one request after the other in the same way.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast

from barnabas_broker.env.network import Network
from barnabas_broker.network.peer_login import LOGIN_ERRORS, PeerLogin
from barnabas_broker.network.tls_transport import EncryptionTurns, TlsTransport
from barnabas_broker.security.broker_users import BrokerLogin
from barnabas_protocol import codec
from barnabas_protocol.connection.client import (
    ClientConnection,
    RemoteProtocolError,
    ResponseReceived,
)
from barnabas_protocol.connection.framing import FrameError, FrameReceiver, SharedBuffer
from barnabas_protocol.schema import Buffer

IN_FLIGHT_MAX = 1_000
"""More would wait longer than anybody listens."""


class PeerLostError(Exception):
    """The connection has ended or never came about; `was_refused`: nobody listens there.

    `was_sent`: the request may have reached the peer.
    """

    def __init__(self, reason: str, *, was_refused: bool = False, was_sent: bool = True) -> None:
        super().__init__(reason)
        self.was_refused = was_refused
        self.was_sent = was_sent


class _InFlight:
    """Who waits for the response to a request, until when, and what is to be sent yet."""

    __slots__ = ("deadline", "response", "unsent")

    def __init__(self, response: asyncio.Future[Any]) -> None:
        self.response = response
        self.unsent: list[Buffer] | None = None
        self.deadline: asyncio.TimerHandle | None = None

    def fail(self, error: Exception) -> None:
        """End it with an error, unless its caller has gone."""
        if self.deadline is not None:
            self.deadline.cancel()
        if not self.response.done():
            self.response.set_exception(error)
            # The caller may be cancelled before it looks.
            self.response.exception()


class PeerConnection(asyncio.BufferedProtocol):
    """A connection from its first attempt to its end; it is never made again."""

    def __init__(
        self,
        network: Network,
        address: tuple[str, int],
        shared_buffer: SharedBuffer,
        *,
        client_id: str,
        response_bytes_max: int,
        on_end: Callable[[PeerLostError], None],
        failure: Callable[[PeerLostError], Exception] = lambda error: error,
        context: ssl.SSLContext | None = None,
        encryption_turns: EncryptionTurns | None = None,
        login: BrokerLogin | None = None,
    ) -> None:
        """Begin to connect; `on_end` is called once, when it is over, unless `close` ended it.

        `failure` makes what a caller gets for an error. With a context of TLS come the turns in
        which this broker encrypts; with a log-in requests wait until that is through.
        """
        self.address = address
        self.is_ended = False
        self._receiver = FrameReceiver(shared_buffer, response_bytes_max)
        self._connection = ClientConnection[_InFlight](
            self._receiver,
            client_id=client_id,
            in_flight_max=IN_FLIGHT_MAX,
            waits_out_throttles=False,
        )
        self._login = None if login is None else PeerLogin(self._receiver, login, client_id)
        self._is_open = False  # requests may be sent
        self._on_end = on_end
        self._failure = failure
        self._encryption_turns = encryption_turns if context is not None else None
        self._encrypted: TlsTransport | None = None
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._is_gone = asyncio.Event()  # nothing of it is left in the loop
        connecting = (
            network.connect(lambda: self, *address)
            if context is None
            else network.connect(lambda: self, *address, context=context)
        )
        attempt = self._loop.create_task(connecting)
        attempt.add_done_callback(self._connected)
        self._connecting: asyncio.Task[Any] | None = attempt

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, down to the socket."""
        return self._is_gone.is_set()

    def send(self, request: Any, version: int, timeout_ms: int) -> asyncio.Future[Any]:
        """Send a request, at once or when connected; the future is its decoded response.

        Its exception is what `failure` makes of a PeerLostError.
        Raises: PeerLostError if too many requests wait.
        """
        connection = self._connection
        if self.is_ended or len(connection.in_flight) >= IN_FLIGHT_MAX:
            reason = "it has ended" if self.is_ended else "too many requests wait"
            raise PeerLostError(reason, was_sent=False)
        response: asyncio.Future[Any] = self._loop.create_future()
        in_flight = _InFlight(response)
        buffers, _ = connection.send(request, version, in_flight)
        in_flight.deadline = self._loop.call_later(
            timeout_ms / 1000, self._late, in_flight, type(request), timeout_ms
        )
        if self._is_open:
            assert self._transport is not None
            self._transport.writelines(buffers)
        else:
            in_flight.unsent = buffers
        return response

    def _late(self, in_flight: _InFlight, kind: type[Any], timeout_ms: int) -> None:
        in_flight.deadline = None
        lacking = "no connection" if self._transport is None else "no response"
        api = codec.api_key_of(kind).name
        self._end(PeerLostError(f"{lacking} to {api} within {timeout_ms} ms"))

    def _connected(self, attempt: asyncio.Task[Any]) -> None:
        # A callback, since a task that is cancelled before its first step runs none of its code.
        self._connecting = None
        error = None if attempt.cancelled() else attempt.exception()
        if self._transport is None or attempt.cancelled() or error is not None:
            # An attempt that fails or is cancelled takes its transport with it, also one that was
            # handed over already: uvloop then calls connection_lost no more.
            self._is_gone.set()
        if error is not None:
            was_refused = isinstance(error, ConnectionRefusedError)
            reason = f"no connection: {error}"
            if isinstance(error, ssl.SSLError):
                reason = f"no TLS with it: {_tls_failure(error)}"
            self._end(PeerLostError(reason, was_refused=was_refused))

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited for this."""
        self._transport = cast(asyncio.Transport, transport)
        if self._encryption_turns is not None:
            self._encrypted = TlsTransport(
                self._transport, self._encryption_turns, _nothing, _nothing
            )
            self._transport = cast(asyncio.Transport, self._encrypted)
        if self.is_ended:
            self._transport.abort()
            return
        if self._login is not None:
            self._transport.writelines(self._login.begin())
        else:
            self._open()

    def _open(self) -> None:
        """Send what has waited."""
        assert self._transport is not None
        self._is_open = True
        for entry in self._connection.in_flight:
            if entry.tag is not None and entry.tag.unsent is not None:
                self._transport.writelines(entry.tag.unsent)
                entry.tag.unsent = None

    def _log_in(self, login: PeerLogin) -> None:
        """Go on with the log-in. Raises: FrameError, RemoteProtocolError."""
        assert self._transport is not None
        try:
            while (buffers := login.received()) is not None:
                self._transport.writelines(buffers)
        except LOGIN_ERRORS as error:
            self._end(PeerLostError(f"the log-in failed: {error}"))
            return
        if login.is_through:
            self._login = None
            self._open()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for the kernel to write to."""
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand every response that is complete now to its caller."""
        if self.is_ended:
            return
        self._receiver.received(nbytes)
        connection = self._connection
        try:
            if self._login is not None:
                self._log_in(self._login)
                return
            while not self.is_ended and (event := connection.next_event(0)) is not None:
                assert type(event) is ResponseReceived
                in_flight = event.tag
                if in_flight.deadline is not None:
                    in_flight.deadline.cancel()
                if not in_flight.response.done():
                    in_flight.response.set_result(event.response)
        except (FrameError, RemoteProtocolError) as error:
            self._end(PeerLostError(f"what it sent cannot be read: {error}"))

    def pause_writing(self) -> None:
        """Encrypt no more for a while: what is beneath takes nothing."""
        if self._encrypted is not None:
            self._encrypted.block()

    def resume_writing(self) -> None:
        """Go on."""
        if self._encrypted is not None:
            self._encrypted.unblock()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End it for everybody who still waits."""
        self._is_gone.set()
        if self._encrypted is not None:
            self._encrypted.clear()
        self._end(PeerLostError(f"the connection was lost: {exc or 'closed by the peer'}"))

    # The end.

    def close(self) -> None:
        """End it from here: it fails for who still waits; `on_end` is not called."""
        self._on_end = _ignore
        self._end(PeerLostError("closed here"))

    def _end(self, error: PeerLostError) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._receiver.clear()
        requests = [entry.tag for entry in self._connection.in_flight if entry.tag is not None]
        self._connection.in_flight.clear()
        unsent = PeerLostError(str(error), was_refused=error.was_refused, was_sent=False)
        for in_flight in requests:
            in_flight.fail(self._failure(error if in_flight.unsent is None else unsent))
        on_end, self._on_end = self._on_end, _ignore
        on_end(error)

    async def wait_ended(self) -> None:
        """Return when nothing of it is left in the loop; call it after the end."""
        await self._is_gone.wait()


def _ignore(error: PeerLostError) -> None:
    """Nobody waits for it any more."""


def _nothing() -> None:
    """Requests in flight are bounded, whatever the transport says."""


def _tls_failure(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}"
    return (error.reason or str(error)).replace("_", " ").lower()

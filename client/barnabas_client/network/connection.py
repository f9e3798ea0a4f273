"""One connection to one broker: the shell that joins transport, state, clock and futures.

Not here: what is sent and received (`ClientConnection` of the protocol), reconnecting
(`node_connections.py`).

Invariants: a future that `send` returned is always settled: by the response, the deadline, the loss
of the connection or its closing. A caller that went away leaves its place in the order of responses
behind, so that the connection stays consistent. One timer per connection, however many requests.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Clock
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ClientBrokenError,
    ClosedError,
    DisconnectedError,
    RetriableError,
    TimedOutError,
    UnsupportedError,
    UsageError,
    error_for,
)
from barnabas_client.network.login import Login
from barnabas_client.network.tls import handshake_error, plain_at_tls_error
from barnabas_client.network.transport import FrameTransport, connect_socket, start_transport
from barnabas_protocol.connection.client import (
    ClientConnection,
    HandshakeCompleted,
    HandshakeContinues,
    HandshakeHashes,
    LocalProtocolError,
    MalformedResponseError,
    RemoteProtocolError,
    ResponseReceived,
)
from barnabas_protocol.connection.framing import (
    OWN_BYTES_MAX,
    FrameError,
    FrameReceiver,
    SharedBuffer,
)
from barnabas_protocol.connection.handshake import Handshake, HandshakeError, Refusal
from barnabas_protocol.connection.sasl import SaslError
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.schema import Message

CLOSE_SECONDS: Final = 2.0
SOFTWARE_NAME: Final = "barnabas"
_NEVER: Final = 1 << 62

ResponseFuture = asyncio.Future[Any]


class IdleError(DisconnectedError):
    """The connection was closed because it is of no use any more: no failure of the broker's."""


class Connection:
    """A connection from `open` to `close`; it is never opened twice."""

    def __init__(
        self,
        peer: str,
        settings: ClientSettings,
        clock: Clock,
        *,
        client_id: str,
        software_version: str,
        shared_buffer: SharedBuffer,
        login: Login | None,
        host: str = "",
    ) -> None:
        self.peer = peer
        receiver = FrameReceiver(
            shared_buffer, settings.receive_message_max_bytes, trusted_bytes=OWN_BYTES_MAX
        )
        self.state: ClientConnection[ResponseFuture] = ClientConnection(
            receiver,
            client_id=client_id,
            in_flight_max=settings.max_in_flight_requests_per_connection,
            handshake=Handshake(
                SOFTWARE_NAME,
                software_version,
                None if login is None else lambda: login.create(host),
            ),
        )
        self.address = ("", 0)
        self.error: BarnabasError | None = None
        self.has_ended_unanswered = False
        """Whether the peer ended it before it responded to anything."""
        self.on_closed: Callable[[BarnabasError], None] = _ignore
        self._settings = settings
        self._clock = clock
        self._login = login
        self._preparation: asyncio.Task[None] | None = None
        self._hashing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._transport = FrameTransport(
            receiver,
            on_received=self._receive,
            on_writable=self._wake,
            on_closed=self._lost,
        )
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = _NEVER
        self._used_at_ms = clock.monotonic_ms()

    @property
    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._transport.is_closed

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent right now."""
        transport = self._transport
        return transport.is_writable and self.state.can_send(self._clock.monotonic_ms())

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None, timeout_ms: int) -> None:
        """Connect, encrypt, agree on versions and log in.

        Raises: BrokerUnreachableError, AuthenticationError, ConfigurationError, UnsupportedError.
        """
        self.address = (host, port)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._open(host, port, tls, timeout_ms)
        except TimeoutError:
            error: BarnabasError = BrokerUnreachableError(
                f"{self.peer} did not let us in within {timeout_ms} ms "
                "(socket_connection_setup_timeout_ms)"
            )
        except BarnabasError as raised:
            error = raised
        except BaseException:
            self._transport.abort()
            raise
        else:
            return
        self._transport.abort()
        self._settle(error)
        raise error

    async def _open(
        self, host: str, port: int, tls: ssl.SSLContext | None, timeout_ms: int
    ) -> None:
        settings = self._settings
        try:
            opened = await connect_socket(
                host,
                port,
                send_buffer_bytes=settings.send_buffer_bytes,
                receive_buffer_bytes=settings.receive_buffer_bytes,
            )
        except TimeoutError:
            raise
        except OSError as error:
            reason = _reason(error)
            raise BrokerUnreachableError(f"cannot connect to {self.peer}: {reason}") from error
        try:
            await start_transport(self._transport, opened, tls, host)
        except TimeoutError:
            raise
        except OSError as error:
            raise handshake_error(self.peer, error, settings.security_protocol) from error
        if self._login is not None and self._login.is_prepared:
            await self._login.prepare()
        if not self.is_closed:
            deadline_ms = self._clock.monotonic_ms() + timeout_ms
            self._transport.write(self.state.begin(deadline_ms))
        await self._opened
        self._arm()

    def send(self, request: Message, version: int, timeout_ms: int) -> ResponseFuture:
        """Send a request while `is_ready`; the future gets the response, None if there is none.

        Raises: UsageError if the request holds what cannot be sent.
        """
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + timeout_ms
        future = self._loop.create_future()
        try:
            buffers, has_response = self.state.send(request, version, future, deadline_ms)
        except LocalProtocolError as error:
            raise UsageError(str(error)) from error
        self._used_at_ms = now_ms
        self._transport.write(buffers)
        if not has_response:
            future.set_result(None)
        elif deadline_ms < self._timer_due_ms:
            self._arm()
        return future

    async def wait_until_ready(self) -> None:
        """Wait for room, for a throttle time to pass, or for a re-authentication.

        Raises: the error of the connection if it is lost meanwhile.
        """
        while not self.is_ready:
            if self.error is not None:
                raise again(self.error)
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            self._wake()  # sets the timer where that is needed
            try:
                await waiter
            except asyncio.CancelledError:
                # If this one had been woken, the room that it was woken for is somebody else's now.
                self._wake()
                raise

    async def close(self) -> None:
        """Close in order; what is in flight fails as closed."""
        self._settle(ClosedError("the client was closed before the response came"))
        await self._transport.close(CLOSE_SECONDS)

    def disconnect(self, error: BarnabasError) -> None:
        """Give the connection up; what is in flight fails with copies of the error."""
        if not self.is_closed:
            self._transport.abort()
            self._finish(error)

    def _receive(self) -> None:
        """Take all that has arrived."""
        now_ms = self._clock.monotonic_ms()
        self._used_at_ms = now_ms
        next_event = self.state.next_event
        try:
            while (event := next_event(now_ms)) is not None:
                if isinstance(event, ResponseReceived):
                    if not event.tag.done():
                        event.tag.set_result(event.response)
                else:
                    self._advance(event)
        except FrameError as error:
            self._transport.abort()
            self._lost(error)
            return
        except MalformedResponseError as error:
            self._refuse_response(error)
            return
        except Exception as error:
            self.disconnect(self._failure(error))
            return
        self._wake()

    def _advance(self, event: HandshakeContinues | HandshakeHashes | HandshakeCompleted) -> None:
        if isinstance(event, HandshakeContinues):
            self._transport.write(event.buffers)
        elif isinstance(event, HandshakeHashes):
            self._hashing = self._loop.create_task(self._hash(event.compute))
        elif not self._opened.done():
            self._opened.set_result(None)
        else:
            self._arm()  # logged in again

    async def _hash(self, compute: Callable[[], bytes]) -> None:
        """Hash a password in a thread: a server says how often, up to some tenths of a second."""
        try:
            hashed = await asyncio.to_thread(compute)
            self._transport.write(self.state.provide(hashed))
            if self._opened.done():
                self._arm()
        except Exception as error:
            self.disconnect(self._failure(error))

    def _failure(self, error: Exception) -> BarnabasError:
        """What ends the connection, for its callers."""
        if isinstance(error, RemoteProtocolError):
            return DisconnectedError(f"{self.peer}: {error}")
        if isinstance(error, HandshakeError):
            refused = _refusal(error)
            return again(refused, f"{self.peer}: {refused.message}")
        if isinstance(error, SaslError):
            message = f"{self.peer}: the broker fails {error.mechanism}: {error.reason}"
            return AuthenticationError(message)
        if isinstance(error, BarnabasError):  # of a sasl_exchange that the caller has given
            return again(error, f"{self.peer}: {error.message}")
        broken = ClientBrokenError(f"the exchange with {self.peer} failed: {error!r}")
        broken.__cause__ = error
        return broken

    def _refuse_response(self, error: MalformedResponseError) -> None:
        """Fail the request whose response makes no sense, and the connection with it."""
        named = ClientBrokenError(f"{self.peer} broke the protocol: {error}")
        named.__cause__ = error
        head = self.state.in_flight.popleft() if self.state.in_flight else None
        if head is not None and head.tag is not None and not head.tag.done():
            head.tag.set_exception(named)
        if self._opened.done():
            self.disconnect(DisconnectedError(named.message))
        else:
            self.disconnect(named)

    def _lost(self, cause: Exception | None) -> None:
        """Handle a loss that the peer or the network caused."""
        self._finish(self._loss(cause))

    def _loss(self, cause: Exception | None) -> BarnabasError:
        protocol = self._settings.security_protocol
        if isinstance(cause, ssl.SSLError):
            return handshake_error(self.peer, cause, protocol)
        is_tls = isinstance(cause, FrameError) and cause.looks_like == "TLS"
        if is_tls and not self._settings.uses_tls:
            return plain_at_tls_error(self.peer, protocol)
        reason = str(cause) if cause is not None else "the broker closed it"
        if isinstance(cause, OSError):
            reason = _reason(cause)
        if isinstance(cause, FrameError):
            reason = _frame_reason(cause)
        if isinstance(cause, FrameError) or self.state.has_served:
            return DisconnectedError(f"the connection to {self.peer} is lost: {reason}")
        # A broker that shuts down does this too, so it may pass.
        self.has_ended_unanswered = True
        message = (
            f"{self.peer} ended the connection before it responded to any request ({reason}); does "
            f"its port go with security_protocol={protocol}?"
        )
        return (
            DisconnectedError(message) if self._opened.done() else BrokerUnreachableError(message)
        )

    def _finish(self, error: BarnabasError) -> None:
        self._settle(error)
        self.on_closed(error)

    def _settle(self, error: BarnabasError) -> None:
        """Fail everybody who waits for anything here."""
        if self.error is None:
            self.error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in (self._preparation, self._hashing):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()  # nobody may be waiting any more
        while self.state.in_flight:
            tag = self.state.in_flight.popleft().tag
            if tag is not None and not tag.done():
                tag.set_exception(again(error))
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(again(error))

    def _wake(self) -> None:
        """Let those go on for whom there is room."""
        if not self._waiters:
            return
        if not self.is_ready:
            if self._clock.monotonic_ms() < self.state.throttled_until_ms < self._timer_due_ms:
                self._arm()  # nothing else may happen here before
            return
        room = self._settings.max_in_flight_requests_per_connection - len(self.state.in_flight)
        while self._waiters and room > 0:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def _arm(self) -> None:
        """Set the timer to the next moment at which something is due."""
        due_ms = self._due_ms()
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        if due_ms == _NEVER:
            self._timer = None
            return
        wait_ms = max(0, due_ms - self._clock.monotonic_ms())
        self._timer = self._loop.call_later(wait_ms / 1000, self._on_timer)

    def _due_ms(self) -> int:
        state = self.state
        due_ms = _NEVER
        if state.in_flight:
            due_ms = min(entry.deadline_ms for entry in state.in_flight)
        elif self._settings.connections_max_idle_ms >= 0:
            due_ms = self._used_at_ms + self._settings.connections_max_idle_ms
        if self._waiters and state.throttled_until_ms > self._clock.monotonic_ms():
            due_ms = min(due_ms, state.throttled_until_ms)
        if state.reauthenticate_at_ms is not None and self._preparation is None:
            due_ms = min(due_ms, state.reauthenticate_at_ms)
        return due_ms

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        state = self.state
        deadline_ms = state.earliest_deadline_ms
        if deadline_ms is not None and now_ms >= deadline_ms:
            self._time_out(now_ms)
            return
        idle_ms = self._settings.connections_max_idle_ms
        if deadline_ms is None and idle_ms >= 0 and now_ms >= self._used_at_ms + idle_ms:
            self.disconnect(IdleError(f"the connection to {self.peer} was idle"))
            return
        if state.reauthenticate_at_ms is not None and now_ms >= state.reauthenticate_at_ms:
            self._log_in_again()
        self._wake()
        self._arm()

    def _log_in_again(self) -> None:
        """Begin the re-authentication, or first get what it needs; requests go on meanwhile."""
        if self._login is None or not self._login.is_prepared:
            self._begin_reauthentication()
        elif self._preparation is None:
            self._preparation = self._loop.create_task(self._prepare_log_in())

    async def _prepare_log_in(self) -> None:
        assert self._login is not None
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                await self._login.prepare()
        except (BarnabasError, TimeoutError) as error:
            message = f"{self.peer}: the session ends and cannot be prolonged: {error}"
            self.disconnect(DisconnectedError(message))
        else:
            if not self.is_closed:
                self._begin_reauthentication()
        finally:
            self._preparation = None
        if not self.is_closed:
            self._arm()

    def _begin_reauthentication(self) -> None:
        deadline_ms = self._clock.monotonic_ms() + self._settings.request_timeout_ms
        try:
            buffers = self.state.begin_reauthentication(deadline_ms)
        except Exception as error:  # e.g. a sasl_exchange of the caller's that is broken
            self.disconnect(self._failure(error))
        else:
            self._transport.write(buffers)

    def _time_out(self, now_ms: int) -> None:
        """Give the connection up: who does not respond to one request gets no more (CLI-5)."""
        error = TimedOutError(f"{self.peer} did not respond in time")
        for entry in self.state.in_flight:
            if entry.deadline_ms <= now_ms and entry.tag is not None and not entry.tag.done():
                entry.tag.set_exception(again(error))
        self.disconnect(DisconnectedError(error.message))


def _reason(error: OSError) -> str:
    """Why, in the system's words; asyncio's own repeat the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _frame_reason(error: FrameError) -> str:
    start = error.start
    if error.looks_like != "TLS" and start.isascii() and start.decode().isprintable() and start:
        text = start.decode()
        return f"what it sent begins with {text!r}, so it is no Kafka broker: check host and port"
    hint = " (receive_message_max_bytes)" if error.reason == "oversize" else ""
    return f"{error}{hint}"


def _refusal(error: HandshakeError) -> BarnabasError:
    """What a refused handshake means for the caller, in the names of the settings."""
    code, mechanism = error.error_code, error.mechanism
    match error.refusal:
        case Refusal.VERSIONS:
            return error_for(code, "the broker refuses to name its versions")
        case Refusal.NO_SASL:
            return UnsupportedError(
                "the broker does not offer SASL here: check security_protocol and the port"
            )
        case Refusal.NOT_A_SASL_LISTENER:
            return AuthenticationError(
                "the broker's listener does not use SASL: set security_protocol to PLAINTEXT or "
                "SSL, or use its SASL port"
            )
        case Refusal.MECHANISM:
            return AuthenticationError(
                f"sasl_mechanism={mechanism} is not enabled on the broker, "
                f"which offers {', '.join(error.offered) or 'none'}"
            )
        case Refusal.LOGIN_BEGIN:
            return error_for(code, "the broker refuses to begin the log-in")
        case Refusal.CREDENTIALS:
            reason = error.message or "no reason given"
            return AuthenticationError(
                f"the broker refuses the {mechanism} credentials: {reason}",
                ErrorCode.SASL_AUTHENTICATION_FAILED,
            )
        case Refusal.LOGIN:
            refused = error_for(code, error.message)
            if isinstance(refused, RetriableError):
                return refused
            return AuthenticationError(f"the log-in failed: {refused}", refused.code)
        case Refusal.INCOMPLETE:
            return AuthenticationError(f"{mechanism} ended without a result")


def _ignore(_: BarnabasError) -> None:
    """Stand in until somebody waits for it."""


def again(error: BarnabasError, message: str | None = None) -> BarnabasError:
    """A copy of an error: each waiter gets its own, with its own traceback."""
    copy = type(error)(message or error.message, error.code)
    copy.__cause__ = error.__cause__
    return copy

"""One client connection: frames in, responses out, in order, within bounds.

The shell around `ServerConnection`: transport, memory, limits and timers. Knows frames, not what
they request: `dispatch` gets each as an `InFlightRequest` and responds through that. Written for
the hot path: everything runs synchronously inside the transport's callbacks and in `flush`, which
the turn calls once after all that arrived in a loop turn.

Invariants:
- Responses leave in the order of the requests, whatever the order in which they become ready.
- Nothing grows without bound: no further frame is handed out while the session is held, muted or
  closing, has too many requests in flight, unsent bytes or an unread peer, or while requests hold
  more memory than allowed. If bytes arrive then, reading pauses.
- Who sends very many small requests at once has them taken over many turns of the loop.
- A failure ends this connection only; what it held is given back in `connection_lost`, always.

Source: NET-3, NET-5 to NET-9, NET-13; KIP-72 for the memory bound.
"""

import asyncio
import contextlib
import logging
import math
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Buffer
from barnabas_broker.network.connection_limits import describe_peer
from barnabas_broker.network.frame_turns import FrameTurns
from barnabas_broker.network.login import Login, LoginStage
from barnabas_broker.network.network_metrics import NetworkMetrics
from barnabas_broker.network.request_memory import RequestMemory
from barnabas_broker.security.allowed_names import AllowedNames
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.framing import FrameError, FrameReceiver, SharedBuffer
from barnabas_protocol.connection.server import ServerConnection
from barnabas_protocol.errors import ParseError

_log = logging.getLogger(__name__)

IN_FLIGHT_MAX = 64
UNSENT_BYTES_MAX = 1024 * 1024
"""Responses that may wait for their turn or for an earlier one: beyond, no frames are taken."""
FRAMES_AT_ONCE = 8
"""So many are taken before a connection looks whether the time of this turn is over."""
WRITE_HIGH_BYTES = 1024 * 1024
WRITE_LOW_BYTES = 256 * 1024
LARGE_RESPONSE_BYTES = 64 * 1024
"""Responses beyond this are counted until they are sent."""
_ENVELOPE_START = struct.pack(">h", ApiKey.ENVELOPE)
ENVELOPE_BYTES = 512
"""What an envelope adds to a request: a header with the broker's name, an address, some lengths."""
_NO_FRAME = memoryview(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What is configured for every connection of a listener."""

    request_bytes_max: int = 100 * 1024 * 1024
    # What a connection may send before `Session.limit_frames` is called; 0: as much as later.
    first_request_bytes_max: int = 0
    takes_envelopes: bool = False  # other brokers connect, with requests of clients in theirs
    send_buffer_bytes: int = 102_400
    receive_buffer_bytes: int = 102_400
    idle_ms_max: int = 600_000
    in_flight_max: int = IN_FLIGHT_MAX

    def receiver(self, shared_buffer: SharedBuffer) -> FrameReceiver:
        """What cuts a connection's frames.

        A client's largest request must also fit into the envelope in which a broker sends it on.
        """
        return FrameReceiver(
            shared_buffer,
            self.first_request_bytes_max or self.request_bytes_max,
            larger_bytes=ENVELOPE_BYTES if self.takes_envelopes else 0,
            larger_start=_ENVELOPE_START,
        )

    def apply_to(self, connected: socket.socket) -> None:
        """Set the options of an accepted socket (NET-3).

        A buffer is only ever made larger: the default sizes are below what today's systems give
        anyway, and setting one ends its growth with need. With Kafka's 102400 a large request took
        four times the processor time here, in many small reads.
        """
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, wanted in (
            (socket.SO_SNDBUF, self.send_buffer_bytes),
            (socket.SO_RCVBUF, self.receive_buffer_bytes),
        ):
            if wanted > connected.getsockopt(socket.SOL_SOCKET, option):
                connected.setsockopt(socket.SOL_SOCKET, option, wanted)


class TurnEnd(Protocol):
    """The end of a loop turn: responses leave when the appends of the turn are in their files."""

    def flush(self, session: "Session") -> None:
        """Call `flush` of the session once in this turn."""
        ...


class SessionHost(Protocol):
    """What a session needs of the listener that it came through."""

    name: str
    loop: asyncio.AbstractEventLoop
    turn: TurnEnd
    clock: Clock
    dispatch: Callable[["InFlightRequest"], None]
    settings: SessionSettings
    frame_turns: FrameTurns
    memory: RequestMemory
    metrics: NetworkMetrics
    shared_buffer: SharedBuffer
    login: LoginStage | None

    def admit(self, session: "Session") -> bool:
        """Count a new connection in; False if it is refused: the listener cuts it."""
        ...

    def gone(self, session: "Session", error: BaseException | None) -> None:
        """Count a connection out."""
        ...

    def logged_in(self, session: "Session") -> None:
        """Count a connection as half-open no more."""
        ...

    def closing(
        self, session: "Session", kind: str, reason: str, error: Exception | None = None
    ) -> None:
        """Count and log that a connection is being closed from here."""
        ...


class InFlightRequest:
    """A request on a connection, and the place of its response in the order of the connection.

    Whoever handles the request may respond at once, later, or (acks=0) with nothing; the session
    sends responses in the order of the requests. Not a parsed request: the fields below the frame
    are free for the dispatcher's use. It gets one response; one on a closed connection is dropped
    silently, because operations that were parked learn of the closing only afterwards.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "correlation_id",
        "frame",
        "inner_key",
        "is_done",
        "on_abandoned",
        "parts",
        "received_ns",
        "session",
    )

    def __init__(self, session: "Session", frame: memoryview, received_ns: int) -> None:
        self.session = session
        self.frame = frame
        self.received_ns = received_ns
        self.is_done = False
        self.parts: Sequence[Buffer] | None = None  # a response that waits for earlier ones
        self.on_abandoned: Callable[[], None] | None = None
        self.api_key = -1
        self.api_version = -1
        self.inner_key = -1  # of the request in an envelope
        self.correlation_id = 0
        self.client_id: str | None = None

    @property
    def principal(self) -> Principal:
        """Who requests this: once it has logged in, a connection's principal stays."""
        return self.session.principal

    @property
    def host(self) -> str:
        """The address that the request came from."""
        return self.session.host

    def reply(self, parts: Sequence[Buffer]) -> None:
        """Respond with the concatenation of the parts, without size prefix.

        The parts are neither copied now nor later if they are large, and must not change any more.

        Raises: RuntimeError where it had a response before.
        """
        if self.is_done:
            self._refuse_second()
            return
        self.is_done = True
        self.session.respond(self, parts)

    def reply_nothing(self) -> None:
        """End the request without a response, as acks=0 demands."""
        if self.is_done:
            self._refuse_second()
            return
        self.is_done = True
        self.session.respond(self, None)

    def _refuse_second(self) -> None:
        # The session marks what was in flight as done when the connection is lost.
        if not self.session.is_closed:
            raise RuntimeError("the request had a response before")

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Have a callback run if the connection closes before the response; forgotten with it.

        One callback a request; a later one replaces it.
        """
        self.on_abandoned = callback


class Session(asyncio.BufferedProtocol):
    """One connection of a listener."""

    __slots__ = (
        "__weakref__",
        "_clock_ns",
        "_connection",
        "_dispatch",
        "_frame_turns",
        "_held_bytes",
        "_holds",
        "_is_admitted",
        "_is_dirty",
        "_is_draining",
        "_is_reading",
        "_is_resuming",
        "_is_stalled",
        "_is_waiting_for_memory",
        "_is_write_paused",
        "_listener",
        "_memory",
        "_mute_handle",
        "_on_closed",
        "_receiver",
        "_transport",
        "_unsent_bytes",
        "_used_bytes",
        "allowed_topics",
        "client_software",
        "closing_since_ns",
        "exclusive",
        "frame_since_ns",
        "host",
        "is_closed",
        "last_active_ns",
        "listener_name",
        "login",
        "login_due_seconds",
        "peer",
        "principal",
        "unread_since_ns",
    )

    def __init__(self, listener: SessionHost) -> None:
        self._listener = listener
        self._clock_ns = listener.clock.monotonic_ns
        self._dispatch = listener.dispatch
        self._frame_turns = listener.frame_turns
        self._memory = listener.memory
        self._receiver = listener.settings.receiver(listener.shared_buffer)
        self._connection = ServerConnection[InFlightRequest](self._receiver)
        self._transport: asyncio.Transport | None = None
        self._held_bytes = 0  # of the receiver, as counted in the memory
        self._holds = 0
        self._unsent_bytes = 0  # of large responses in the transport, as counted in the memory
        self._used_bytes = 0  # of frames that are handed out and have no response
        self.frame_since_ns = 0  # since when the frame arrives that is not complete
        self.unread_since_ns = 0  # since when the peer has read nothing of what waits for it
        self._mute_handle: asyncio.TimerHandle | None = None
        self._on_closed: dict[Callable[[], None], None] = {}
        self._is_admitted = False
        self._is_dirty = False
        self._is_draining = False
        self._is_reading = True
        self._is_resuming = False
        self._is_stalled = False
        self._is_waiting_for_memory = False
        self._is_write_paused = False
        self.is_closed = True
        self.exclusive = False  # if set, a frame is only handed out when none is in flight
        self.host = ""
        self.peer = "unknown"
        self.listener_name = listener.name
        self.principal = ANONYMOUS  # until the authenticator knows better
        self.allowed_topics: AllowedNames | None = None  # once an authorizer was asked
        self.login: Login | None = None  # on listeners with SASL
        self.login_due_seconds = 0.0  # by the loop's clock, where the time runs already
        self.client_software: tuple[str, str] | None = None
        self.last_active_ns = 0
        self.closing_since_ns = -1  # when it was closed from here

    # The transport's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where a limit is reached."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.peer = describe_peer(transport.get_extra_info("peername"))
        self.last_active_ns = self._clock_ns()
        if not self._admit():
            return
        self._is_admitted = True
        self.is_closed = False
        if self._listener.login is not None:
            self.login = Login(self, self._listener.login, self._listener.loop)
            self._dispatch = self.login.take
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(OSError):  # the peer may be gone already
                self._listener.settings.apply_to(connected)

    def _admit(self) -> bool:
        return self._listener.admit(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back everything the connection held and call back those who wait for it."""
        self._transport = None
        self.is_closed = True
        if self._mute_handle is not None:
            self._mute_handle.cancel()
            self._mute_handle = None
        memory, callbacks = self._memory, list(self._on_closed)
        for in_flight in self._connection.pending:
            if in_flight.on_abandoned is not None:
                callbacks.append(in_flight.on_abandoned)
                in_flight.on_abandoned = None
            if not in_flight.is_done:
                in_flight.is_done = True
                memory.used_bytes -= len(in_flight.frame)
                memory.request_count -= 1
        memory.used_bytes -= self._held_bytes
        memory.unsent_bytes -= self._unsent_bytes
        self._held_bytes = self._used_bytes = self._unsent_bytes = 0
        self._connection.clear()
        self._on_closed.clear()
        memory.forget(self)
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a callback for the closing of %s failed", self.peer)
        if self._is_admitted:
            self._is_admitted = False
            self._listener.gone(self, exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for the kernel to write to."""
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Hand out the frames that are complete now."""
        if self.is_closed:
            return
        self._listener.metrics.bytes_in += nbytes
        self.last_active_ns = self._clock_ns()
        self._receiver.received(nbytes)
        self._take_frames()

    def pause_writing(self) -> None:
        """Take no more frames: the peer does not read the responses to its requests."""
        self._is_write_paused = True
        self._listener.metrics.write_pauses += 1

    def resume_writing(self) -> None:
        """Go on."""
        self._is_write_paused = False
        self.count_unsent()
        self._resume()

    # Frames in.

    def _take_frames(self) -> None:
        """Hand out frames until there is none or the session must wait; then see to reading."""
        receiver, memory, begin = self._receiver, self._memory, self._connection.begin
        is_stalled, taken = False, 0
        try:
            while True:
                if (
                    self._is_busy()
                    or (memory.used_bytes > memory.limit_bytes and not self._may_exceed())
                    or (taken and not taken % FRAMES_AT_ONCE and self._frame_turns.is_over())
                ):
                    is_stalled = True
                    break
                frame = receiver.next_frame()
                if frame is None:
                    break
                in_flight = InFlightRequest(self, frame, self.last_active_ns)
                begin(in_flight)
                memory.used_bytes += len(frame)
                self._used_bytes += len(frame)
                memory.request_count += 1
                taken += 1
                self._dispatch(in_flight)
                if receiver.position == receiver.end:
                    break
            held = receiver.keep()
        except FrameError as error:
            self._fail(error.reason, str(error))
            return
        except ParseError as error:
            self._fail("malformed-request", str(error))
            return
        except Exception as error:
            self._fail("dispatch-failure", f"{type(error).__name__}: {error}", error)
            return
        self._is_stalled = is_stalled
        if memory.favoured is self and self._connection.pending:
            memory.favoured = None
        if held != self._held_bytes:
            if taken or not self._held_bytes:
                self.frame_since_ns = self.last_active_ns
            memory.used_bytes += held - self._held_bytes
            self._held_bytes = held
        if self.is_closed:
            return
        if is_stalled or memory.used_bytes > memory.limit_bytes:
            self._see_to_reading()
            self._resume()
        elif not self._is_reading:
            self._set_reading(True)

    def _is_busy(self) -> bool:
        """Whether this session may hand out no frame now, however much memory there is."""
        connection = self._connection
        return (
            self._holds > 0
            or self.is_closed
            or self._is_write_paused
            or self._is_draining
            or len(connection.pending) >= self._listener.settings.in_flight_max
            or connection.out_bytes + connection.parked_bytes > UNSENT_BYTES_MAX
            or (self.exclusive and len(connection.pending) > 0)
        )

    def _may_exceed(self) -> bool:
        """Whether it may go on although requests hold all the memory they may."""
        memory = self._memory
        if memory.favoured is self:
            return True
        return self._used_bytes + self._receiver.held_bytes <= memory.share_bytes

    def _see_to_reading(self) -> None:
        """Pause or go on reading after frames were taken, where that is in question."""
        memory = self._memory
        if memory.used_bytes > memory.limit_bytes and not self._may_exceed():
            self._set_reading(False)
            self._is_stalled = True
            if not self._is_waiting_for_memory and not self.is_closed:
                self._is_waiting_for_memory = True
                memory.wait(self)
        elif self._is_stalled:
            # Bytes that arrive meanwhile stay in the socket, once some are waiting here.
            self._set_reading(self._held_bytes == 0)
        else:
            self._set_reading(True)

    def _set_reading(self, is_reading: bool) -> None:
        if is_reading == self._is_reading or self._transport is None:
            return
        self._is_reading = is_reading
        if is_reading:
            self._transport.resume_reading()
        else:
            self._listener.metrics.read_pauses += 1
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Have waiting frames taken soon, never inside of a call; memory is seen to then."""
        if (
            self._is_stalled
            and not self._is_resuming
            and not self._is_waiting_for_memory
            and not self._is_busy()
        ):
            self._is_resuming = True
            self._listener.loop.call_soon(self._resume_now)

    def _resume_now(self) -> None:
        self._is_resuming = False
        if not self.is_closed:
            self._take_frames()

    def memory_available(self) -> None:
        """Go on after waiting for the memory of requests."""
        self._is_waiting_for_memory = False
        self._is_stalled = True
        self._resume()

    # Responses out.

    def respond(self, in_flight: InFlightRequest, parts: Sequence[Buffer] | None) -> None:
        """Take the response to a request in flight, which calls this once."""
        memory = self._memory
        memory.used_bytes -= len(in_flight.frame)
        self._used_bytes -= len(in_flight.frame)
        memory.request_count -= 1
        if memory.waiting:
            memory.wake()
        in_flight.on_abandoned = None
        if self.is_closed:
            return
        connection = self._connection
        connection.respond(in_flight, parts)
        if connection.out_bytes > LARGE_RESPONSE_BYTES:
            self.count_unsent()
        if connection.is_broken:
            self._fail("oversize-response", f"a response to api {in_flight.api_key} is too large")
        if not self._is_dirty:
            self._is_dirty = True
            self._listener.turn.flush(self)

    def flush(self) -> None:
        """Send the responses that are ready; called when their data is in the files."""
        self._is_dirty = False
        transport = self._transport
        if transport is None:
            return
        connection, metrics = self._connection, self._listener.metrics
        if connection.finished:
            metrics.observe(connection.finished, self._clock_ns())
            connection.finished.clear()
        if connection.out_bytes:
            size = connection.out_bytes
            metrics.bytes_out += size
            out = connection.data_to_send()
            if len(out) == 1:
                transport.write(out[0])
            else:
                transport.writelines(out)
            if size > LARGE_RESPONSE_BYTES:
                self.count_unsent()
        if self.is_closed or (self._is_draining and not self._connection.pending):
            self.is_closed = True
            transport.close()
        elif self._is_stalled:
            self._resume()

    def count_unsent(self) -> None:
        """Count what of its responses waits to be sent; note when the peer has taken some of it."""
        transport, memory = self._transport, self._memory
        unsent = self._connection.out_bytes
        if transport is not None:
            unsent += transport.get_write_buffer_size()
        if unsent < self._unsent_bytes or not self._unsent_bytes:
            self.unread_since_ns = self._clock_ns()
        memory.unsent_bytes += unsent - self._unsent_bytes
        self._unsent_bytes = unsent

    @property
    def unsent_bytes(self) -> int:
        """What of its responses was waiting to be sent when that was last counted."""
        return self._unsent_bytes

    @property
    def partial_bytes(self) -> int:
        """What has arrived of a frame that is not complete, where it is the peer who is waited for.

        None of it while this session does not read.
        """
        return self._held_bytes if self._is_reading and not self._is_stalled else 0

    @property
    def response_bytes_max(self) -> int:
        """How large a response may be, in view of what no connection has read yet."""
        return self._memory.response_bytes_max

    def reserve_response(self, size: int) -> None:
        """Count a response that is being read, of up to so many bytes; negative: it has been."""
        self._memory.unsent_bytes += size

    def release_frame(self, in_flight: InFlightRequest) -> None:
        """Give the memory of a frame back before its response: nothing of the request is in it."""
        memory = self._memory
        memory.used_bytes -= len(in_flight.frame)
        self._used_bytes -= len(in_flight.frame)
        in_flight.frame = _NO_FRAME
        if memory.waiting:
            memory.wake()

    # For handlers and the listener.

    def limit_frames(self, bytes_max: int) -> None:
        """Take frames up to a size from now on."""
        self._receiver.frame_bytes_max = bytes_max

    def begin_requests(self) -> None:
        """Hand frames to the dispatcher from now on: the client has logged in."""
        self.limit_frames(self._listener.settings.request_bytes_max)
        self._listener.logged_in(self)
        self._dispatch = self._listener.dispatch

    def take_frames_by_login(self) -> None:
        """Hand frames to the log-in from now on."""
        assert self.login is not None
        self._dispatch = self.login.take

    def dispatch_before_login(self, in_flight: InFlightRequest) -> None:
        """Have the dispatcher handle one request of a client that has not logged in."""
        self._listener.dispatch(in_flight)

    def hold(self) -> None:
        """Hand out no further frame until `release` was called as often as this."""
        self._holds += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds -= 1
        self._resume()

    def mute(self, mute_ms: int) -> None:
        """Hand out no further frame for a while; a longer mute that runs already stays."""
        if self.is_closed or mute_ms <= 0:
            return
        loop = self._listener.loop
        until = loop.time() + mute_ms / 1000
        if self._mute_handle is not None:
            if self._mute_handle.when() >= until:
                return
            self._mute_handle.cancel()
        else:
            self._holds += 1
        self._listener.metrics.mutes += 1
        self._mute_handle = loop.call_at(until, self._unmute)

    @property
    def muted_ms(self) -> int:
        """For how long it is still muted."""
        if self._mute_handle is None:
            return 0
        return max(math.ceil((self._mute_handle.when() - self._listener.loop.time()) * 1000), 0)

    def _unmute(self) -> None:
        self._mute_handle = None
        self.release()

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Have a callback run when the connection is lost; see also `InFlightRequest`."""
        self._on_closed[callback] = None

    def close(self, reason: str, kind: str = "handler") -> None:
        """Close after what is ready was sent; later responses are dropped.

        The reason goes to the log. The kind is one of a few constants, by which it is counted.
        """
        self._fail(kind, reason)

    def _fail(self, kind: str, reason: str, error: Exception | None = None) -> None:
        if self.is_closed:
            return
        self._listener.closing(self, kind, reason, error)
        self.is_closed = True
        self.closing_since_ns = self._clock_ns()
        self._receiver.clear()
        self._set_reading(False)
        # Not at once: responses of this turn wait for its writers.
        self._listener.turn.flush(self)

    def end(self, reason: str, kind: str) -> None:
        """Hand out nothing more, and close when all that is in flight has its response."""
        if not self._connection.pending:
            self._fail(kind, reason)
        elif not self.is_closed:
            self._listener.closing(self, kind, reason)
            self.drain()

    def drain(self) -> None:
        """Hand out nothing more and close when all that is in flight has its response."""
        if not self.is_closed:
            self._is_draining = True
            self._listener.turn.flush(self)

    def ignore(self) -> None:
        """Read nothing of a connection that was refused, and is cut a little later."""
        if self._transport is not None:
            self._transport.pause_reading()

    def dispatch_to(self, dispatch: Callable[[InFlightRequest], None]) -> None:
        """Hand the next frames to somebody else, once the client has logged in where it must."""
        if self.login is None or self.login.is_through:
            self._dispatch = dispatch

    def abort(self) -> None:
        """Close at once; nothing more is sent."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def in_flight_count(self) -> int:
        """Frames handed out whose responses were not sent."""
        return len(self._connection.pending)

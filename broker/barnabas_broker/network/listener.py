"""One bound address and the sessions that came through it.

Admits connections within the limits, closes idle ones by one slow timer, counts and logs how
connections end, and stops in order: first accepting, then what is in flight, then the rest. What
the frames mean is the dispatcher's.

Source: NET-2 to NET-6, NET-14.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import BoundListener, Network
from barnabas_broker.network.connection_limits import (
    UNLIMITED,
    ConnectionLimits,
    describe_peer,
)
from barnabas_broker.network.decryption_turns import DecryptionTurns
from barnabas_broker.network.frame_turns import FrameTurns
from barnabas_broker.network.handshakes import Handshake, Handshakes
from barnabas_broker.network.limited_lines import LimitedLines
from barnabas_broker.network.login import LoginStage
from barnabas_broker.network.network_metrics import NetworkMetrics
from barnabas_broker.network.request_memory import RequestMemory
from barnabas_broker.network.session import InFlightRequest, Session, SessionSettings, TurnEnd
from barnabas_broker.network.tls_session import AcceptedSession, TlsSession
from barnabas_broker.network.tls_transport import EncryptionTurns
from barnabas_broker.quotas.rate_limit import RateLimit
from barnabas_protocol.connection.framing import SharedBuffer

if TYPE_CHECKING:
    from barnabas_broker.security.tls.listener_tls import CertificateIdentity, ListenerTls

_log = logging.getLogger(__name__)

SWEEP_MS_MAX = 5_000
FRAME_MS_MAX = 30_000
FRAME_BYTES_PER_MS_MIN = 256
"""A frame has so long to arrive, and longer if it arrives at 256 kB a second."""
UNREAD_MS_MAX = 60_000
"""A peer that reads nothing of its responses is cut off after this."""
LINGER_MS = 10_000
"""How long a closed connection may take to accept its last responses before it is cut."""
REFUSED_MAX = 1_000
"""Connections over a rate that are kept until they are cut: each has a descriptor meanwhile."""
QUIET_KINDS = frozenset({"idle", "shutdown", "peer"})


class Listener:
    """Accepts connections on one address and owns their sessions."""

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        turn: TurnEnd,
        clock: Clock,
        dispatch: Callable[[InFlightRequest], None],
        settings: SessionSettings,
        limits: ConnectionLimits,
        memory: RequestMemory,
        metrics: NetworkMetrics,
        shared_buffer: SharedBuffer,
        login: LoginStage | None = None,
        connections_max: int = UNLIMITED,
        backlog: int = 50,
        security_protocol: str = "PLAINTEXT",
        tls: ListenerTls | None = None,
        handshakes: Handshakes | None = None,
        encryption_turns: EncryptionTurns | None = None,
        decryption_turns: DecryptionTurns | None = None,
        frame_turns: FrameTurns | None = None,
        plaintext: Listener | None = None,
    ) -> None:
        """Make one that does not accept yet.

        Turn, limits, memory, metrics and shared buffer are those of the broker, the same for all
        its listeners, and so are what turns of the loop have time for: frames, encryption and
        decryption. `connections_max` is this listener's own limit. With `tls` come the handshakes,
        which are the broker's too. With `login`, nobody may do anything before they have logged in.
        `plaintext` is where connections without TLS at this address belong (port unification).
        """
        self.name = name
        self.host = host
        self.loop = loop
        self.turn = turn
        self.clock = clock
        self.dispatch = dispatch
        self.settings = settings
        self.memory = memory
        self.metrics = metrics
        self.shared_buffer = shared_buffer
        self.login = login
        # In the order in which they came: that of a set would differ from run to run.
        self.sessions: dict[Session, None] = {}
        self.tls = tls
        self.encryption_turns = encryption_turns or EncryptionTurns(loop)
        self.decryption_turns = decryption_turns or DecryptionTurns(loop)
        self.frame_turns = frame_turns or FrameTurns(loop, clock)
        self.certificate_identity: Callable[[Any, int], CertificateIdentity | None] | None = (
            tls.identity_of if tls is not None and security_protocol == "SSL" else None
        )
        self.plaintext = plaintext
        self._handshakes = handshakes
        self._half_open_count = 0  # handshakes of this listener
        self._logging_in: set[Session] = set()
        self._port = port
        self._network = network
        self._limits = limits
        self._connections_max = connections_max
        self._rate = RateLimit(clock)  # of new connections here
        self._backlog = backlog
        self._bound: BoundListener | None = None
        self._sweep_handle: asyncio.TimerHandle | None = None
        self._all_gone = asyncio.Event()
        self._refused: dict[Session | socket.socket, asyncio.TimerHandle] = {}
        self._lines = LimitedLines(_log, clock)

    @property
    def port(self) -> int:
        """The bound port; before `start`, the configured one."""
        return self._port

    def limit(self, connections_max: int, creation_rate: float) -> None:
        """Have other limits from now on; connections that are open stay."""
        self._connections_max = connections_max
        self._rate.rate = creation_rate

    async def start(self) -> None:
        """Bind and accept.

        Raises: OSError where the address cannot be bound.
        """
        if self.tls is None:
            self._bound = await self._network.listen(
                lambda: Session(self), self.host, self._port, backlog=self._backlog
            )
        else:
            self._bound = await self._network.listen_sockets(
                self._accepted, self.host, self._port, backlog=self._backlog
            )
        self._serve(self._bound)
        if self.plaintext is not None:
            self.plaintext._serve(self._bound)

    def _serve(self, bound: BoundListener) -> None:
        self._bound = bound
        self._port = bound.port
        self._arm_sweep()

    async def stop_accepting(self) -> None:
        """Refuse new connections; those that exist go on."""
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.close()
            if self._handshakes is not None:
                self._handshakes.cut(self)
            await bound.wait_closed()

    async def close(self, drain_ms: int = 5_000) -> None:
        """Stop accepting, finish what is in flight, then close every connection.

        Frames that were not handed out yet are not started. What has no response within `drain_ms`
        is cut off.
        """
        await self.stop_accepting()
        for refused in list(self._refused):
            self._cut(refused)
        for session in list(self.sessions):
            session.drain()
        await self._wait_until_gone(drain_ms)
        for session in list(self.sessions):
            session.abort()
        await self._wait_until_gone(LINGER_MS)
        if self._sweep_handle is not None:
            self._sweep_handle.cancel()
            self._sweep_handle = None

    async def _wait_until_gone(self, wait_ms: int) -> None:
        if not self.sessions:
            return
        self._all_gone.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._all_gone.wait()

    # For sessions.

    def admit(self, session: Session) -> bool:
        """Count a new connection in; where a limit forbids it, or this has stopped, it is cut."""
        if self._bound is None:
            session.abort()
            return False
        limit, cut_ms = self._enter(session.host)
        if limit is None and self.login is not None and self._handshakes is not None:
            limit = self._handshakes.half_open.enter(session.host)
            if limit is None:
                self._logging_in.add(session)
            else:
                self._limits.leave(session.host)
        if limit is not None:
            self._count_refused(limit, session.peer)
            self._refuse(session, cut_ms)
            return False
        self._take(session)
        return True

    def logged_in(self, session: Session) -> None:
        """Count a connection as half-open no more (SEC-8)."""
        if session in self._logging_in and self._handshakes is not None:
            self._logging_in.discard(session)
            self._handshakes.half_open.leave(session.host)

    def _take(self, session: Session) -> None:
        self.sessions[session] = None
        self.memory.divide(self._limits.total)
        self.metrics.connections_open += 1

    def _enter(self, host: str) -> tuple[str | None, int]:
        """Count a new connection in; or which limit forbids it, and how much later to cut it."""
        self.metrics.connections_accepted += 1
        rates = self._limits.rates
        cut_ms = 0 if rates is None else rates.throttle_ms(host, self._rate)
        if cut_ms:
            return "connection-creation-rate", cut_ms
        if self._connection_count >= self._connections_max:
            return "connections-per-listener", 0
        return self._limits.enter(host), 0

    @property
    def _connection_count(self) -> int:
        plaintext = 0 if self.plaintext is None else len(self.plaintext.sessions)
        return len(self.sessions) + self._half_open_count + plaintext

    def _count_refused(self, limit: str, peer: str) -> None:
        self.metrics.rejected[limit] = self.metrics.rejected.get(limit, 0) + 1
        self._write_line("rejected", "refused a connection from %s on %s: too many %s", peer, limit)

    def _refuse(self, refused: Session | socket.socket, cut_ms: int) -> None:
        """Cut a connection, after a while so that its client does not come again at once."""
        if not cut_ms or len(self._refused) >= REFUSED_MAX:
            _close(refused)
            return
        if isinstance(refused, Session):
            # Not at once: uvloop begins to read when the connection was made.
            self.loop.call_soon(refused.ignore)
        self._refused[refused] = self.loop.call_later(cut_ms / 1000, self._cut, refused)

    def _cut(self, refused: Session | socket.socket) -> None:
        self._refused.pop(refused).cancel()
        _close(refused)

    # For handshakes.

    @property
    def context(self) -> ssl.SSLContext:
        """What the next handshake is made with."""
        assert self.tls is not None
        return self.tls.server

    @property
    def handshakes_max(self) -> int:
        """How many handshakes with that may be under way at once."""
        assert self.tls is not None
        return self.tls.handshakes_max

    @property
    def has_port_unification(self) -> bool:
        """Whether connections without TLS are served, too."""
        return self.plaintext is not None

    def session(self, handshake: Handshake, joined: Callable[[Session], bool]) -> Session:
        """The session of a connection whose handshake is over, or that wants none."""
        if handshake.is_plaintext:
            assert self.plaintext is not None
            return AcceptedSession(self.plaintext, joined)
        return TlsSession(self, joined)

    def join(self, session: Session, handshake: Handshake) -> bool:
        """Take over a connection that has been counted since it was accepted."""
        self._half_open_count -= 1
        if handshake.is_plaintext:
            assert self.plaintext is not None
            return self.plaintext._receive(session, handshake)
        self.metrics.count_handshake(self.name, "completed")
        return self._receive(session, handshake)

    def _receive(self, session: Session, handshake: Handshake) -> bool:
        assert self._handshakes is not None
        session.host, session.peer = handshake.host, handshake.peer
        if handshake.deadline is not None:
            session.login_due_seconds = handshake.deadline.when()
        self._logging_in.add(session)
        if self.login is None or self._bound is None:
            self.logged_in(session)
        if self._bound is None:
            self._limits.leave(handshake.host)
            session.abort()
            return False
        self._take(session)
        return True

    def handshake_failed(self, handshake: Handshake, kind: str, reason: str) -> None:
        """Count out, and log, a connection that never became a session."""
        self._half_open_count -= 1
        self._limits.leave(handshake.host)
        self.metrics.count_handshake(self.name, kind)
        if kind in QUIET_KINDS:
            _log.debug("no TLS with %s on %s: %s", handshake.peer, self.name, reason)
        else:
            self._write_line(f"tls-{kind}", "no TLS with %s on %s: %s", handshake.peer, reason)

    def _accepted(self, accepted: socket.socket) -> None:
        """Begin the handshake of a new connection, within the limits."""
        assert self._handshakes is not None
        try:
            host, peer = describe_peer(accepted.getpeername())
            self.settings.apply_to(accepted)
        except OSError:  # it has gone already
            accepted.close()
            return
        limit, cut_ms = self._enter(host)
        if limit is None:
            limit = self._handshakes.begin(self, accepted, host, peer)
            if limit is not None:
                self._limits.leave(host)
        if limit is None:
            self._half_open_count += 1
        else:
            self._count_refused(limit, peer)
            self._refuse(accepted, cut_ms)

    def dispatch_to(self, dispatch: Callable[[InFlightRequest], None]) -> None:
        """Hand the frames of all connections to somebody else from now on."""
        self.dispatch = dispatch
        for session in self.sessions:
            session.dispatch_to(dispatch)

    def gone(self, session: Session, error: BaseException | None) -> None:
        """Count a connection out."""
        self.sessions.pop(session, None)
        self.logged_in(session)
        self._limits.leave(session.host)
        self.metrics.connections_open -= 1
        if session.closing_since_ns < 0:
            kind = "peer" if error is None else "network-error"
            self.metrics.closed[kind] = self.metrics.closed.get(kind, 0) + 1
        if not self.sessions:
            self._all_gone.set()

    def closing(
        self, session: Session, kind: str, reason: str, error: Exception | None = None
    ) -> None:
        """Count and log that a connection is being closed from here."""
        self.metrics.closed[kind] = self.metrics.closed.get(kind, 0) + 1
        if kind in QUIET_KINDS:
            _log.debug("closed the connection from %s on %s: %s", session.peer, self.name, reason)
        else:
            self._write_line(
                kind, "closed the connection from %s on %s: %s", session.peer, reason, error
            )

    def _write_line(
        self, kind: str, message: str, peer: str, reason: str, error: Exception | None = None
    ) -> None:
        """Log a line unless there were too many of its kind; the metrics count every one."""
        self._lines.write(kind, message, peer, self.name, reason, error=error)

    def _lateness(self, session: Session, now_ns: int) -> str:
        """Why a peer has had its time for sending a frame or reading responses; empty if not."""
        partial_bytes = session.partial_bytes
        if partial_bytes:
            waited_ms = (now_ns - session.frame_since_ns) // 1_000_000
            if waited_ms > FRAME_MS_MAX + partial_bytes // FRAME_BYTES_PER_MS_MIN:
                return f"{partial_bytes} bytes of a frame in {waited_ms} ms"
        if session.unsent_bytes:
            session.count_unsent()
            waited_ms = (now_ns - session.unread_since_ns) // 1_000_000
            if session.unsent_bytes and waited_ms > UNREAD_MS_MAX:
                return f"{session.unsent_bytes} bytes of responses not read for {waited_ms} ms"
        return ""

    # The slow timer.

    def _arm_sweep(self) -> None:
        delay_ms = min(max(self.settings.idle_ms_max / 10, 10), SWEEP_MS_MAX)
        self._sweep_handle = self.loop.call_later(delay_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        """Close idle connections, cut those that linger, and pass the right to memory on."""
        now_ns = self.clock.monotonic_ns()
        idle_before_ns = now_ns - self.settings.idle_ms_max * 1_000_000
        linger_before_ns = now_ns - LINGER_MS * 1_000_000
        for session in list(self.sessions):
            if session.is_closed:
                if session.closing_since_ns <= linger_before_ns:
                    session.abort()
            elif reason := self._lateness(session, now_ns):
                session.close(reason, "too-slow")
                session.abort()
            elif session.in_flight_count:
                session.last_active_ns = now_ns  # a parked request is not idleness
            elif session.last_active_ns <= idle_before_ns:
                session.close(f"idle for {self.settings.idle_ms_max} ms", "idle")
        self.memory.rotate()
        self._arm_sweep()


def _close(refused: Session | socket.socket) -> None:
    if isinstance(refused, Session):
        refused.abort()
    else:
        refused.close()

"""TLS handshakes: connections from accept until their session begins.

A connection is counted when it is accepted, before a byte of TLS: floods of handshakes meet the
same limits as floods of connections, and limits of half-open ones. It costs a socket until its
first byte is there; who sends something else than TLS is told of in the log and never handed to
OpenSSL. A listener with port unification serves those of them that send a request. Handshakes begin
in the order of addresses, a bounded number at once: all of them may reach their most expensive step
in one turn of the loop, which may take 10 ms. While others wait, one that is stuck gives way.

Invariants: each accepted socket ends once, as a session or closed; what was counted is given back.

Source: SEC-6, SEC-8.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas_broker.env.clock import Clock
from barnabas_broker.env.network import Network
from barnabas_broker.network.half_open import HalfOpenConnections
from barnabas_broker.network.session import Session

UNITS_OF_CLIENTS: Final = 24
UNITS_OF_BROKERS: Final = 8
UNITS: Final = UNITS_OF_CLIENTS + UNITS_OF_BROKERS
"""What may be under way at once; how many of them a handshake takes, its key says."""
STUCK_SECONDS: Final = 2.0
"""A handshake that is under way for so long gives way to those that wait."""
_HANDSHAKE_RECORD: Final = 0x16
_REQUEST_START: Final = 0x00
"""The first byte of the size of a request below 16 MiB, and of no record of TLS."""

# What OpenSSL calls it, and what that means.
_ALERTS: Final = ("ALERT_UNKNOWN_CA", "ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_", "ALERT_UNSUPP")
_MEANINGS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
        "it shows no certificate, which ssl.client.auth=required demands"
    ),
    "NO_SHARED_CIPHER": "it speaks none of the cipher suites that are enabled here",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that is enabled here",
    "HTTP_REQUEST": "it speaks HTTP, not TLS",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
}


class HandshakeListener(Protocol):
    """The listener that a connection came through."""

    @property
    def context(self) -> ssl.SSLContext:
        """What the next handshake is made with."""
        ...

    @property
    def handshakes_max(self) -> int:
        """How many handshakes with that may be under way at once, were it alone."""
        ...

    @property
    def has_port_unification(self) -> bool:
        """Whether it serves connections without TLS, too."""
        ...

    def session(
        self, handshake: Handshake, joined: Callable[[Session], bool]
    ) -> asyncio.BaseProtocol:
        """The session of a connection whose handshake is over, or that wants none."""
        ...

    def join(self, session: Session, handshake: Handshake) -> bool:
        """Take over a connection; False where it may not stay."""
        ...

    def handshake_failed(self, handshake: Handshake, kind: str, reason: str) -> None:
        """Count out, and log, a connection that never became a session."""
        ...


class Handshake:
    """One connection whose handshake is not over."""

    __slots__ = (
        "deadline",
        "has_begun",
        "has_joined",
        "host",
        "is_plaintext",
        "listener",
        "peer",
        "socket",
        "started_seconds",
        "task",
        "units",
    )

    def __init__(
        self, listener: HandshakeListener, accepted: socket.socket, host: str, peer: str
    ) -> None:
        self.listener = listener
        self.socket = accepted
        self.host = host
        self.peer = peer
        self.deadline: asyncio.TimerHandle | None = None
        self.has_begun = False
        self.has_joined = False
        self.is_plaintext = False
        self.started_seconds = 0.0
        self.task: asyncio.Task[None] | None = None
        self.units = 0


class Handshakes:
    """Those of the listeners of clients, or of that of the brokers."""

    def __init__(
        self,
        network: Network,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        half_open: HalfOpenConnections,
        *,
        timeout_ms: int,
        units_max: int = UNITS_OF_CLIENTS,
    ) -> None:
        self.half_open = half_open
        self.timeout_ms = timeout_ms
        self._network = network
        self._loop = loop
        self._clock = clock
        self._units_max = units_max
        self._units_used = 0
        self._silent: dict[Handshake, None] = {}  # without a byte so far
        self._waiting: dict[str, deque[Handshake]] = {}  # by address, the next first
        self._under_way: dict[Handshake, None] = {}  # the oldest first
        self._by_host: dict[str, int] = {}  # units under way
        self._stuck_handle: asyncio.TimerHandle | None = None
        self.most_under_way = 0
        """The most handshakes that OpenSSL was at together."""

    @property
    def under_way_count(self) -> int:
        """Handshakes that OpenSSL is at."""
        return len(self._under_way)

    def begin(
        self, listener: HandshakeListener, accepted: socket.socket, host: str, peer: str
    ) -> str | None:
        """Take an accepted connection; returns instead which limit forbids it, if one does."""
        limit = self.half_open.enter(host)
        if limit is not None:
            return limit
        handshake = Handshake(listener, accepted, host, peer)
        handshake.deadline = self._loop.call_later(self.timeout_ms / 1000, self._late, handshake)
        self._silent[handshake] = None
        self._loop.add_reader(accepted, self._has_sent, handshake)
        return None

    def cut(self, listener: HandshakeListener) -> None:
        """End every handshake of a listener."""
        for handshake in [*self._silent, *self._under_way, *self._all_waiting()]:
            if handshake.listener is listener:
                self._end(handshake, "shutdown", "the broker stops")

    def _all_waiting(self) -> list[Handshake]:
        return [handshake for waiting in self._waiting.values() for handshake in waiting]

    # Until the first byte.

    def _has_sent(self, handshake: Handshake) -> None:
        try:
            start = handshake.socket.recv(8, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(handshake, "peer", f"it went before the handshake: {error}")
            return
        if not start:
            self._end(handshake, "peer", "it went before the handshake")
        elif start[0] == _REQUEST_START and handshake.listener.has_port_unification:
            self._loop.remove_reader(handshake.socket)
            del self._silent[handshake]
            handshake.is_plaintext = True
            self._start(handshake)
        elif start[0] != _HANDSHAKE_RECORD:
            self._end(handshake, "no-tls", _not_tls(start))
        else:
            self._loop.remove_reader(handshake.socket)
            del self._silent[handshake]
            self._waiting.setdefault(handshake.host, deque()).append(handshake)
            self._start_next()

    # In turn.

    def _start_next(self) -> None:
        """Begin handshakes while there is room, an address after the other."""
        waiting = self._waiting
        for host in list(waiting):
            queue = waiting.get(host)
            while queue and self._has_room(queue[0]):
                handshake = queue.popleft()
                if queue:
                    waiting[host] = waiting.pop(host)  # the others come first now
                else:
                    del waiting[host]
                self._start(handshake)
                queue = None if len(waiting) > 1 else waiting.get(host)
            if self._units_used >= self._units_max:
                break
        if waiting and self._stuck_handle is None and self._under_way:
            self._watch_for_stuck()

    def _has_room(self, handshake: Handshake) -> bool:
        units = min(max(UNITS // handshake.listener.handshakes_max, 1), self._units_max)
        handshake.units = units
        # No address takes all of it while others may come.
        of_host = self._by_host.get(handshake.host, 0) + units
        is_within_share = of_host <= max(self._units_max // 2, units)
        return is_within_share and self._units_used + units <= self._units_max

    def _start(self, handshake: Handshake) -> None:
        handshake.started_seconds = self._loop.time()
        self._under_way[handshake] = None
        self.most_under_way = max(self.most_under_way, len(self._under_way))
        self._count(handshake, handshake.units)
        handshake.task = self._loop.create_task(self._make(handshake))

    async def _make(self, handshake: Handshake) -> None:
        listener = handshake.listener
        deadline = handshake.deadline
        left = 0.001 if deadline is None else max(deadline.when() - self._loop.time(), 0.001)

        handshake.has_begun = True

        def joined(session: Session) -> bool:
            if handshake.units < 0:  # ended in this very turn
                session.abort()
                return False
            handshake.has_joined = True
            return listener.join(session, handshake)

        try:
            if handshake.is_plaintext:
                await self._network.serve_plaintext(
                    lambda: listener.session(handshake, joined), handshake.socket
                )
            else:
                await self._network.serve_tls(
                    lambda: listener.session(handshake, joined),
                    handshake.socket,
                    listener.context,
                    left + 1,
                )
        except OSError as error:
            if not handshake.has_joined:
                handshake.task = None
                self._end(handshake, *meaning_of(error))
                return
        self._leave(handshake)

    def _watch_for_stuck(self) -> None:
        oldest = next(iter(self._under_way))
        self._stuck_handle = self._loop.call_at(
            oldest.started_seconds + STUCK_SECONDS, self._cut_stuck
        )

    def _cut_stuck(self) -> None:
        self._stuck_handle = None
        before = self._loop.time() - STUCK_SECONDS
        if self._waiting:
            for handshake in list(self._under_way):
                if handshake.started_seconds > before + 0.001:
                    break
                self._end(handshake, "slow-handshake", "it is stuck in the handshake")
        self._start_next()

    # The end.

    def _late(self, handshake: Handshake) -> None:
        handshake.deadline = None
        reason = f"its handshake took longer than {self.timeout_ms} ms"
        self._end(handshake, "slow-handshake", reason)

    def _end(self, handshake: Handshake, kind: str, reason: str) -> None:
        """Close a connection that has not become a session."""
        if handshake.has_joined or handshake.units < 0:
            return
        if handshake in self._silent:
            self._loop.remove_reader(handshake.socket)
        task, handshake.task = handshake.task, None
        self._leave(handshake)
        if task is not None:
            task.cancel()
        if task is None or not handshake.has_begun:
            handshake.socket.close()  # otherwise the transport does
        handshake.units = -1
        self.half_open.leave(handshake.host)
        handshake.listener.handshake_failed(handshake, kind, reason)

    def _leave(self, handshake: Handshake) -> None:
        """Forget a handshake, wherever it is, and let others begin."""
        if handshake.deadline is not None:
            handshake.deadline.cancel()
            handshake.deadline = None
        self._silent.pop(handshake, None)
        queue = self._waiting.get(handshake.host)
        if queue is not None:
            with contextlib.suppress(ValueError):
                queue.remove(handshake)
            if not queue:
                del self._waiting[handshake.host]
        if handshake in self._under_way:
            del self._under_way[handshake]
            self._count(handshake, -handshake.units)
            if self._waiting:
                self._start_next()

    def _count(self, handshake: Handshake, units: int) -> None:
        """Take units, or give them back; one without TLS has none."""
        self._units_used += units
        of_host = self._by_host.get(handshake.host, 0) + units
        if of_host:
            self._by_host[handshake.host] = of_host
        else:
            self._by_host.pop(handshake.host, None)


def _not_tls(start: bytes) -> str:
    if start[:4] in (b"GET ", b"POST", b"PUT ", b"HEAD", b"CONN"):
        return "it speaks HTTP, not TLS"
    if start[:2] == b"\x00\x00":
        return "it speaks Kafka's protocol without TLS: set its security.protocol to SSL"
    return "it does not speak TLS"


def meaning_of(error: OSError) -> tuple[str, str]:
    """The kind of a failed handshake, and what it means, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = error.verify_message.rstrip(".")
        return "certificate", f"its certificate is not accepted: {message}"
    if isinstance(error, ssl.SSLError):
        name = getattr(error, "reason", None) or ""  # one of Python's own has none
        plain = name.replace("_", " ").lower() or str(error)
        if any(part in name for part in _ALERTS):
            alert = plain.partition("alert ")[2]
            return "certificate", f"it does not accept this broker's certificate ({alert})"
        return "tls", _MEANINGS.get(name, f"the handshake failed: {plain}")
    if isinstance(error, ConnectionAbortedError) or "taking longer" in str(error):
        return "slow-handshake", "its handshake took too long"
    # Clients on asyncio go so where they do not accept what they are shown.
    return "left", "it went during the handshake, as one does that refuses this certificate"

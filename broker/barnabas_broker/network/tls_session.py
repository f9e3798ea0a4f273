"""Sessions at a port with TLS: made when the handshake is over, with the certificate's principal.

Not here: the handshake (`handshakes.py`), and how bytes are encrypted in turn (`tls_transport.py`).
A session on a plain connection pays nothing for this.

Source: SEC-3, SEC-4, SEC-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from barnabas_broker.network.decryption_turns import DecryptionTurn, DecryptionTurns
from barnabas_broker.network.session import Session, SessionHost
from barnabas_broker.network.tls_transport import EncryptionTurns, TlsTransport
from barnabas_broker.security.principal_mapping import MappingError

if TYPE_CHECKING:
    from barnabas_broker.security.tls.listener_tls import CertificateIdentity

END_JITTER_MS: Final = 60_000
"""Certificates that end together do not end all connections in one moment."""
END_CHECK_SECONDS: Final = 3_600.0


class TlsSessionHost(SessionHost, Protocol):
    """What a session on TLS needs of its listener beside what others need."""

    encryption_turns: EncryptionTurns
    decryption_turns: DecryptionTurns
    certificate_identity: Callable[[Any, int], CertificateIdentity | None] | None
    """Who has shown a certificate; None where another log-in says who somebody is."""


class AcceptedSession(Session):
    """One connection that was counted when it was accepted, before its session was made."""

    __slots__ = ("_joined",)

    def __init__(self, listener: SessionHost, joined: Callable[[Session], bool]) -> None:
        """`joined` takes the connection over; False where it may not stay."""
        super().__init__(listener)
        self._joined = joined

    def _admit(self) -> bool:
        return self._joined(self)


class TlsSession(AcceptedSession):
    """One connection of a listener with TLS."""

    __slots__ = ("_decryption", "_encrypted", "_end_handle", "_ends_at_ms", "_host")

    def __init__(self, listener: TlsSessionHost, joined: Callable[[Session], bool]) -> None:
        super().__init__(listener, joined)
        self._host = listener
        self._decryption: DecryptionTurn | None = None
        self._encrypted: TlsTransport | None = None
        self._end_handle: asyncio.TimerHandle | None = None  # of the client's certificate
        self._ends_at_ms = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, whose handshake is over."""
        inner = cast(asyncio.Transport, transport)
        encrypted = self._encrypted = TlsTransport(
            inner,
            self._host.encryption_turns,
            super().pause_writing,
            super().resume_writing,
        )
        shown = inner.get_extra_info("ssl_object")
        if shown is not None:
            self._decryption = DecryptionTurn(self._host.decryption_turns, shown, self._read_on)
        super().connection_made(cast(asyncio.Transport, encrypted))
        if not self.is_closed and self._host.certificate_identity is not None:
            self._identify(inner, self._host.certificate_identity)

    def _read_on(self) -> None:
        """Have what has arrived, and was not read in its turn, read soon."""
        transport = self._transport
        if transport is not None and self._is_reading:
            transport.pause_reading()
            transport.resume_reading()

    def _identify(
        self,
        inner: asyncio.Transport,
        identity_of: Callable[[Any, int], CertificateIdentity | None],
    ) -> None:
        """Take the certificate's principal, for as long as the certificate says so (SEC-30)."""
        now_ms = self._host.clock.wall_ms()
        try:
            identity = identity_of(inner.get_extra_info("ssl_object"), now_ms)
        except (MappingError, ValueError) as error:
            self.close(f"its certificate has no principal: {error}", "certificate")
            return
        if identity is not None:
            self.principal = identity.principal
            self._ends_at_ms = identity.not_after_ms + hash(self.peer) % END_JITTER_MS
            self._await_end()

    def _await_end(self) -> None:
        left_ms = self._ends_at_ms - self._host.clock.wall_ms()
        if left_ms <= 0:
            self._end_handle = None
            self.close("its certificate has ended", "certificate-ended")
            return
        # Looked at again now and then: the clock of the wall may be set.
        wait_seconds = min(left_ms / 1000, END_CHECK_SECONDS)
        self._end_handle = self._host.loop.call_later(wait_seconds, self._await_end)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back everything the connection held."""
        if self._encrypted is not None:
            self._encrypted.clear()
        if self._decryption is not None:
            self._decryption.end()
        if self._end_handle is not None:
            self._end_handle.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What is beneath takes no more; the session is told when too much waits above it."""
        if self._encrypted is not None:
            self._encrypted.block()

    def resume_writing(self) -> None:
        """Go on."""
        if self._encrypted is not None:
            self._encrypted.unblock()

"""A session on a TLS connection: made when the handshake is over, with the certificate's principal.

Not here: the handshake (`handshakes.py`), and how bytes are encrypted in turn (`tls_transport.py`).
A session on a plain connection pays nothing for this.

Source: SEC-3, SEC-4, SEC-8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from barnabas_broker.network.session import Session, SessionHost
from barnabas_broker.network.tls_transport import EncryptionTurns, TlsTransport
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_mapping import MappingError


class TlsSessionHost(SessionHost, Protocol):
    """What a session on TLS needs of its listener beside what others need."""

    encryption_turns: EncryptionTurns
    certificate_principal: Callable[[Any], Principal] | None
    """Who has shown a certificate; None where another log-in says who somebody is."""


class TlsSession(Session):
    """One connection of a listener with TLS."""

    __slots__ = ("_encrypted", "_host", "_joined")

    def __init__(self, listener: TlsSessionHost, joined: Callable[[Session], bool]) -> None:
        """`joined` takes the connection over from its handshake; False where it may not stay."""
        super().__init__(listener)
        self._host = listener
        self._joined = joined
        self._encrypted: TlsTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, whose handshake is over."""
        inner = cast(asyncio.Transport, transport)
        encrypted = self._encrypted = TlsTransport(
            inner,
            self._host.encryption_turns,
            super().pause_writing,
            super().resume_writing,
        )
        super().connection_made(cast(asyncio.Transport, encrypted))
        principal_of = self._host.certificate_principal
        if self.is_closed or principal_of is None:
            return
        try:
            self.principal = principal_of(inner.get_extra_info("ssl_object"))
        except (MappingError, ValueError) as error:
            self.close(f"its certificate has no principal: {error}", "certificate")

    def _admit(self) -> bool:
        return self._joined(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give back everything the connection held."""
        if self._encrypted is not None:
            self._encrypted.clear()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What is beneath takes no more; the session is told when too much waits above it."""
        if self._encrypted is not None:
            self._encrypted.block()

    def resume_writing(self) -> None:
        """Go on."""
        if self._encrypted is not None:
            self._encrypted.unblock()

"""Alerts of TLS handshakes that fail at a server: what tells a client why, before it is cut off.

asyncio and uvloop close a connection whose handshake failed without sending what OpenSSL has to say
of it. A Java client takes that for a lost network and tries again for ever, where an alert is an
SslAuthenticationException. So the alert is kept with the error, and who made the handshake sends
it.

Source: SEC-8, RFC 8446 section 6.2; `SSLContext.sslobject_class`.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

_ATTRIBUTE = "alert_of_barnabas"


class AlertingSSLObject(ssl.SSLObject):
    """One end of TLS whose failed handshake has the alert with it."""

    _written: ssl.MemoryBIO

    @classmethod
    def _create(
        cls, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *rest: Any, **named: Any
    ) -> Any:
        # The one place where a subclass can see what is to be sent; it is called by `wrap_bio`.
        made = super()._create(incoming, outgoing, *rest, **named)  # type: ignore[misc]
        made._written = outgoing
        return made

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises: ssl.SSLError, with the alert where there is one."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            setattr(error, _ATTRIBUTE, self._written.read())
            raise


def send_alert(error: BaseException, connected: socket.socket) -> None:
    """Send the alert of a failed handshake, if there is one and the socket takes it at once."""
    alert = getattr(error, _ATTRIBUTE, b"")
    if alert:
        with contextlib.suppress(OSError):
            connected.send(alert)

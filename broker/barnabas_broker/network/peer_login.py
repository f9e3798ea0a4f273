"""The log-in of a broker on a connection to another: SCRAM, before the first request.

Wraps the protocol's handshake for `PeerConnection`: bytes to send, and whether it is through. A
peer that demands more hashing than brokers do is refused, as it would hold up the loop.

Source: SEC-61.
"""

from __future__ import annotations

import re
from typing import Final

from barnabas_broker.env.randomness import secret_bytes
from barnabas_broker.security.broker_users import ITERATIONS, BrokerLogin
from barnabas_protocol.connection.client import ClientConnection, HandshakeCompleted
from barnabas_protocol.connection.framing import FrameReceiver
from barnabas_protocol.connection.handshake import Handshake, HandshakeError
from barnabas_protocol.connection.sasl import HashingNeeded, SaslError, ScramSaslClient
from barnabas_protocol.schema import Buffer

_SOFTWARE: Final = ("barnabas-broker", "1")
_NONCE_BYTES: Final = 24
_ITERATIONS: Final = re.compile(rb"(?:^|,)i=([0-9]{1,9})(?:,|$)")

LOGIN_ERRORS: Final = (HandshakeError, SaslError)
"""How a log-in fails besides a peer that does not speak the protocol."""


class PeerLogin:
    """One log-in, from its first request on."""

    def __init__(self, receiver: FrameReceiver, login: BrokerLogin, client_id: str) -> None:
        self.is_through = False
        self._connection = ClientConnection[None](
            receiver,
            client_id=client_id,
            in_flight_max=1,
            handshake=Handshake(*_SOFTWARE, lambda: _BrokerScram(login)),
        )

    def begin(self) -> list[Buffer]:
        """The first request."""
        return self._connection.begin(deadline_ms=0)

    def received(self) -> list[Buffer] | None:
        """What is to be sent after what has come, None where more has to come or it is through.

        Raises: FrameError, RemoteProtocolError, one of LOGIN_ERRORS.
        """
        event = self._connection.next_event(0)
        if event is None:
            return None
        if isinstance(event, HandshakeCompleted):
            self.is_through = True
            return None
        return event.buffers  # type: ignore[union-attr]


class _BrokerScram:
    """SCRAM's client, which hashes as often as brokers do and no more."""

    def __init__(self, login: BrokerLogin) -> None:
        self._exchange = ScramSaslClient(
            login.mechanism, login.username, login.password, secret_bytes(_NONCE_BYTES).hex()
        )
        self.mechanism = login.mechanism

    @property
    def is_complete(self) -> bool:
        """Whether the other broker has proven to know the password, too."""
        return self._exchange.is_complete

    def first(self) -> bytes:
        """The first message."""
        return self._exchange.first()

    def respond(self, challenge: bytes) -> bytes | HashingNeeded | None:
        """The answer to a message. Raises: SaslError."""
        found = _ITERATIONS.search(challenge)
        if found is not None and int(found[1]) > ITERATIONS:
            raise SaslError(self.mechanism, "more hashing is demanded than brokers do")
        return self._exchange.respond(challenge)

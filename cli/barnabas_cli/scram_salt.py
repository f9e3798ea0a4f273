"""The salt of a user's SCRAM credential, as the broker tells everybody who begins to log in.

A password that replaces another with the same salt and iterations leaves the former one valid for a
while (SEC-27). No API of administrators tells the salt; the first message of a server does, to
whoever names the user. The log-in is not finished: no proof is sent, nobody is logged in.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas_cli.connection import Connection


class SaltAndIterations(NamedTuple):
    """What a stored credential was derived with."""

    salt: bytes
    iterations: int


class _SaltProbe:
    """The client's side of a log-in that ends when the server has told the salt."""

    def __init__(self, mechanism: str, user: str) -> None:
        from barnabas_protocol.connection.sasl import ScramSaslClient

        self.mechanism = mechanism
        self.is_complete = False
        self.found: SaltAndIterations | None = None
        self._first = ScramSaslClient(mechanism, user, "", secrets.token_urlsafe(24)).first()

    def first(self) -> bytes:
        """Name the user."""
        return self._first

    def respond(self, challenge: bytes) -> bytes | None:
        """Take the salt and end. Raises: AuthenticationError, always."""
        from barnabas_client.errors import AuthenticationError

        parts = challenge.decode("utf-8", "replace").split(",")
        fields = dict(part.split("=", 1) for part in parts if part[1:2] == "=")
        try:
            salt = base64.b64decode(fields.get("s", ""), validate=True)
            iterations = int(fields.get("i", ""))
        except (binascii.Error, ValueError):
            raise AuthenticationError("the broker's first message is malformed") from None
        self.found = SaltAndIterations(salt, iterations)
        raise AuthenticationError("the salt is known: the log-in ends here")


async def salt_of(connection: Connection, mechanism: str, user: str) -> SaltAndIterations | None:
    """What the user's credential has; None where the listener does not offer the mechanism."""
    from barnabas_client.admin.admin import Admin
    from barnabas_client.errors import BarnabasError

    settings = {
        name: value for name, value in connection.settings.items() if not name.startswith("sasl_")
    }
    if not str(settings.get("security_protocol", "")).upper().startswith("SASL"):
        return None
    probe = _SaltProbe(mechanism, user)
    admin = Admin(
        connection.bootstrap_servers,
        **{
            "default_api_timeout_ms": connection.timeout_ms,
            "client_id": "barnabas-cli",
            **settings,
            "sasl_exchange": lambda _: probe,
        },
    )
    try:
        async with admin:
            return None
    except BarnabasError:
        return probe.found

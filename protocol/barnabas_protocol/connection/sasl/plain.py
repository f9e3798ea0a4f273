"""PLAIN: name and password as they are, for encrypted connections.

Source: RFC 4616.
"""

from __future__ import annotations

from typing import Final

from barnabas_protocol.connection.sasl.mechanism import (
    Accepted,
    Authenticated,
    PasswordGiven,
    Provision,
    SaslError,
)

MECHANISM: Final = "PLAIN"
BYTES_MAX: Final = 64 * 1024
"""Names and passwords are shorter."""


class PlainSaslClient:
    """Sends name and password."""

    mechanism = MECHANISM

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise SaslError(MECHANISM, "name and password must not contain NUL")
        self._token = f"\0{username}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        """Return name and password."""
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Accept that the server has nothing to add."""
        self.is_complete = True
        return None


class PlainSaslServer:
    """Takes name and password apart; whether they belong together is verified outside."""

    mechanism = MECHANISM

    def __init__(self) -> None:
        self._username: str | None = None
        self._has_ended = False

    def receive(self, token: bytes) -> PasswordGiven:
        """Take the only token."""
        if self._username is not None or self._has_ended:
            raise SaslError(MECHANISM, "a second token came")
        self._has_ended = True
        if len(token) > BYTES_MAX:
            raise SaslError(MECHANISM, "the token is too long")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslError(MECHANISM, "the token is not UTF-8") from None
        if len(parts) != 3:
            raise SaslError(MECHANISM, "the token does not have three parts")
        authorization_id, username, password = parts
        if not username or not password:
            raise SaslError(MECHANISM, "name or password is empty")
        if authorization_id not in ("", username):
            raise SaslError(MECHANISM, "the authorization id is not the name")
        self._username = username
        return PasswordGiven(username, password)

    def provide(self, provision: Provision | None) -> Authenticated:
        """End the log-in by the verdict on the password."""
        username, self._username = self._username, None
        if username is None:
            raise SaslError(MECHANISM, "nothing is to be verified")
        if not isinstance(provision, Accepted):
            raise SaslError(MECHANISM, "invalid username or password")
        return Authenticated(provision.username, b"", provision.lifetime_ms)

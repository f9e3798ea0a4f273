"""What a SASL mechanism looks like from either side: tokens in, tokens or questions out.

Pure: randomness, credentials and expensive checks come from outside. A server's exchange that needs
a credential or a verdict returns what it needs, and goes on with `provide`; so the look-up may
wait, and a check that takes long may run in a thread.

Source: RFC 4422; `javax.security.sasl` for the names of the two roles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

TOKEN_BYTES_MAX = 512 * 1024
"""The longest token of any mechanism; Kafka's `sasl.server.max.receive.size`."""


class SaslError(Exception):
    """The exchange has failed: the peer breaks the mechanism, or does not prove who it is."""

    def __init__(self, mechanism: str, reason: str) -> None:
        super().__init__(f"{mechanism}: {reason}")
        self.mechanism = mechanism
        self.reason = reason


class HashingNeeded(NamedTuple):
    """A password is to be hashed, which takes long: call this wherever, and `provide` the result.

    Only of a client that was made so.
    """

    compute: Callable[[], bytes]


class SaslClient(Protocol):
    """The client's side of one log-in: `first`, then `respond` until `is_complete`."""

    mechanism: str

    @property
    def is_complete(self) -> bool:
        """Whether the server has proven all that the mechanism demands of it."""
        ...

    def first(self) -> bytes:
        """The token to begin with."""
        ...

    def respond(self, challenge: bytes) -> bytes | HashingNeeded | None:
        """The response to a challenge; None if nothing is to be sent any more.

        Raises: SaslError if the challenge is malformed or proves the server false.
        """
        ...


class HashingSaslClient(SaslClient, Protocol):
    """A mechanism that hashes passwords."""

    def provide(self, hashed: bytes) -> bytes:
        """The response that hashing was needed for."""
        ...


class Challenge(NamedTuple):
    """A token to send; the client's next one is awaited."""

    token: bytes


class CredentialNeeded(NamedTuple):
    """The stored SCRAM credential of a user is needed: provide a `ScramCredential`."""

    mechanism: str
    username: str


class PasswordGiven(NamedTuple):
    """Name and password are to be verified: provide `Accepted`."""

    username: str
    password: str

    def __repr__(self) -> str:
        """Return it without the password."""
        return f"PasswordGiven(username={self.username!r})"


class TokenGiven(NamedTuple):
    """A bearer token is to be verified: provide `Accepted`; `authorization_id` may be empty."""

    token: str
    authorization_id: str
    extensions: dict[str, str]

    def __repr__(self) -> str:
        """Return it without the token."""
        return f"TokenGiven(authorization_id={self.authorization_id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What was to be verified holds: whose it is, and how long it does, if that has an end."""

    username: str
    lifetime_ms: int | None = None


class ScramKeys(NamedTuple):
    """What a server keeps of a password; neither lets anybody log in."""

    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Return nothing of them."""
        return "ScramKeys(...)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """A user's stored credential; several keys while a password is being changed, newest first."""

    salt: bytes
    iterations: int
    keys: tuple[ScramKeys, ...]


class Authenticated(NamedTuple):
    """The log-in is complete; the token goes to the client with the news."""

    username: str
    token: bytes
    lifetime_ms: int | None


Question: TypeAlias = CredentialNeeded | PasswordGiven | TokenGiven
Provision: TypeAlias = ScramCredential | Accepted
ServerStep: TypeAlias = Challenge | CredentialNeeded | PasswordGiven | TokenGiven | Authenticated


class SaslServer(Protocol):
    """The server's side of one log-in: `receive` each token, `provide` what it needs."""

    mechanism: str

    def receive(self, token: bytes) -> ServerStep:
        """Take the client's next token.

        Raises: SaslError if it is malformed, or proves the client false.
        """
        ...

    def provide(self, provision: Provision | None) -> ServerStep:
        """Go on with what the last step needed; None if there is no such thing.

        Raises: SaslError if that ends the log-in.
        """
        ...

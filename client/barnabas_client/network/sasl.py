"""The client's half of the SASL mechanisms: PLAIN and SCRAM. Bytes in, bytes out.

Not here: the Kafka requests around the tokens (`handshake.py`). Another mechanism is any object
with the shape of `SaslExchange`, given by the setting `sasl_exchange`.

Names and passwords are hashed as the UTF-8 that was given, without SASLprep: Kafka's brokers and
tools do so, and a client that normalises could not log in with what they stored.
Source: RFC 4616 (PLAIN), RFC 5802 and RFC 7677 (SCRAM).
Invariants: the server's signature is verified before the exchange counts as complete; a server
cannot make the client count for longer than `ITERATIONS_MAX`; nothing shown holds the password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, Protocol

from barnabas_client.errors import AuthenticationError

ITERATIONS_MIN: Final = 4096
"""RFC 7677 asks for this; fewer would let a false server guess the password cheaply."""
ITERATIONS_MAX: Final = 1_000_000
"""Some tenths of a second; brokers' default is 4096 and Kafka's own limit 16384."""

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING: Final = "n,,"


class SaslExchange(Protocol):
    """One log-in: `first`, then `respond` to each challenge until `is_complete`."""

    mechanism: str

    @property
    def is_complete(self) -> bool:
        """Whether the broker has proven all that the mechanism asks of it."""
        ...

    def first(self) -> bytes:
        """The token to begin with."""
        ...

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None if nothing is to be sent any more.

        Raises: AuthenticationError if the challenge is malformed or proves the server false.
        """
        ...


class PlainExchange:
    """Name and password as they are: for encrypted connections."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise AuthenticationError("sasl_username and sasl_password must not contain NUL")
        self._token = f"\0{username}\0{password}".encode()
        self.is_complete = False

    def first(self) -> bytes:
        """Return name and password."""
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Accept that the broker has nothing to say."""
        self.is_complete = True
        return None


class ScramExchange:
    """Proves to know the password without sending it, and has the broker prove the same."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self.mechanism = mechanism
        self.is_complete = False
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Return the name and our nonce."""
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return our proof for the server's first message; verify its signature in the last."""
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise self._refusal("its message is not UTF-8") from None
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text)
        return None

    def _prove(self, server_first: str) -> bytes:
        fields = self._fields(server_first)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise self._refusal("its nonce does not extend ours")
        salt = self._decoded(fields.get("s", ""), "salt")
        iterations = self._iterations(fields.get("i", ""))
        without_proof = f"c={base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={nonce}"
        message = f"{self._first_bare},{server_first},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored_key, message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._server_signature = hmac.digest(server_key, message, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, server_final: str) -> None:
        fields = self._fields(server_final)
        if "e" in fields:
            raise self._refusal(f"it says {fields['e']}")
        signature = self._decoded(fields.get("v", ""), "signature")
        assert self._server_signature is not None
        if not hmac.compare_digest(signature, self._server_signature):
            raise self._refusal("its signature is wrong: it does not know the password")
        self.is_complete = True

    def _fields(self, text: str) -> dict[str, str]:
        fields = dict(part.split("=", 1) for part in text.split(",") if part[1:2] == "=")
        if "m" in fields:
            raise self._refusal("it asks for an extension that is not known")
        return fields

    def _iterations(self, text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > len(str(ITERATIONS_MAX)):
            raise self._refusal(f"its iteration count is {text[:20]!r}")
        iterations = int(text)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise self._refusal(
                f"its iteration count is {iterations}, not {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        return iterations

    def _decoded(self, text: str, what: str) -> bytes:
        try:
            decoded = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        if not decoded:
            raise self._refusal(f"its {what} is not base64")
        return decoded

    def _refusal(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"the broker fails {self.mechanism}: {reason}")


def create_exchange(mechanism: str, username: str, password: str, nonce: str) -> SaslExchange:
    """The exchange of a mechanism that is built in."""
    if mechanism == PlainExchange.mechanism:
        return PlainExchange(username, password)
    return ScramExchange(mechanism, username, password, nonce)

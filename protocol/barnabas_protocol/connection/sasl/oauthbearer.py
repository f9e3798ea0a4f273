r"""OAUTHBEARER: a token that somebody else has signed.

    client   n,[a=authzid],\x01auth=Bearer token\x01[key=value\x01]...\x01
    server   nothing, or {"status":"invalid_token"}; to that the client sends \x01, and is refused

Whether a token is valid, whose it is and how long, is verified outside.
Source: RFC 7628; KIP-255, KIP-342 (extensions).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from barnabas_protocol.connection.sasl.mechanism import (
    Accepted,
    Authenticated,
    Challenge,
    Provision,
    SaslError,
    ServerStep,
    TokenGiven,
)

MECHANISM: Final = "OAUTHBEARER"
BYTES_MAX: Final = 256 * 1024
"""Tokens with the groups of a large organisation have some tens of kilobytes."""
INVALID_TOKEN: Final = '{"status":"invalid_token"}'

_END: Final = "\x01"
_TOKEN: Final = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def _check_extensions(extensions: Mapping[str, str]) -> None:
    for key, value in extensions.items():
        if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise SaslError(MECHANISM, f"the extension {key[:40]!r} is not allowed")


class OAuthBearerSaslClient:
    """Shows a token."""

    mechanism = MECHANISM

    def __init__(self, token: str, extensions: Mapping[str, str] = MappingProxyType({})) -> None:
        if not _TOKEN.fullmatch(token):
            raise SaslError(MECHANISM, "the token has characters that cannot be sent")
        _check_extensions(extensions)
        pairs = "".join(f"{key}={value}{_END}" for key, value in extensions.items())
        self._token = f"n,,{_END}auth=Bearer {token}{_END}{pairs}{_END}".encode()
        self._refusal = ""
        self.is_complete = False

    def first(self) -> bytes:
        """Return the token."""
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Acknowledge a refusal, which the server then reports; else the log-in is complete."""
        if self._refusal:
            raise SaslError(MECHANISM, f"the server refuses the token: {self._refusal}")
        if challenge:
            self._refusal = challenge.decode(errors="replace")[:1_000]
            return _END.encode()
        self.is_complete = True
        return None


class _Phase(Enum):
    TOKEN = auto()
    VERDICT = auto()
    REFUSED = auto()
    ENDED = auto()


class OAuthBearerSaslServer:
    """Takes a token, and refuses it the way that the mechanism demands."""

    mechanism = MECHANISM

    def __init__(self) -> None:
        self._phase = _Phase.TOKEN
        self._authorization_id = ""

    def receive(self, token: bytes) -> ServerStep:
        """Take the token, or the client's acknowledgement that it was refused."""
        phase, self._phase = self._phase, _Phase.ENDED
        if phase is _Phase.TOKEN:
            return self._take_token(token)
        if phase is _Phase.REFUSED:
            raise SaslError(MECHANISM, INVALID_TOKEN)
        raise SaslError(MECHANISM, "a message came that is not due")

    def provide(self, provision: Provision | None) -> ServerStep:
        """End the log-in by the verdict on the token."""
        phase, self._phase = self._phase, _Phase.ENDED
        if phase is not _Phase.VERDICT:
            raise SaslError(MECHANISM, "nothing is to be verified")
        if not isinstance(provision, Accepted) or (
            self._authorization_id not in ("", provision.username)
        ):
            self._phase = _Phase.REFUSED
            return Challenge(INVALID_TOKEN.encode())
        return Authenticated(provision.username, b"", provision.lifetime_ms)

    def _take_token(self, message: bytes) -> TokenGiven:
        if len(message) > BYTES_MAX:
            raise SaslError(MECHANISM, "the message is too long")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise SaslError(MECHANISM, "the message is not UTF-8") from None
        header, separator, rest = text.partition(_END)
        flag, _, authorization = header.partition(",")
        authorization, comma, surplus = authorization.partition(",")
        if (
            not separator
            or flag != "n"
            or not comma
            or surplus
            or (authorization and authorization[:2] != "a=")
        ):
            raise SaslError(MECHANISM, "the message is malformed")
        self._authorization_id = authorization[2:].replace("=2C", ",").replace("=3D", "=")
        if rest[-2:] != _END + _END:
            raise SaslError(MECHANISM, "the message does not end")
        pairs = [pair.partition("=") for pair in rest[:-2].split(_END)]
        values = {key: value for key, _, value in pairs}
        if len(values) != len(pairs):
            raise SaslError(MECHANISM, "a key is there twice")
        scheme, _, token = values.pop("auth", "").partition(" ")
        if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip(" ")):
            raise SaslError(MECHANISM, "there is no bearer token")
        _check_extensions(values)
        self._phase = _Phase.VERDICT
        return TokenGiven(token.strip(" "), self._authorization_id, values)

"""JSON Web Tokens taken apart: header, claims, and what is signed. Pure; nothing is verified here.

    token = base64url(header) "." base64url(claims) "." base64url(signature)

Source: RFC 7515, RFC 7519, RFC 8725. Encrypted tokens, `crit` and unencoded payloads are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOKEN_BYTES_MAX: Final = 64 * 1024
"""Tokens with the groups of a large organisation have some tens of kilobytes."""
KEY_ID_LENGTH_MAX: Final = 1_000
_PART: Final = re.compile(r"[-_A-Za-z0-9]+")


class TokenRefusedError(Exception):
    """A token is not good; the reason is for the log and shows nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebToken:
    """What a token says."""

    algorithm: str
    key_id: str
    claims: Mapping[str, Any] = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    @staticmethod
    def parse(text: str) -> WebToken:
        """The parts of a token. Raises: TokenRefusedError."""
        if len(text) > TOKEN_BYTES_MAX:
            raise TokenRefusedError("it is too long")
        parts = text.split(".")
        if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
            raise TokenRefusedError("it is not a signed JSON Web Token")
        header = _document(parts[0])
        if "crit" in header:
            raise TokenRefusedError("its header has extensions that must be understood")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str):
            raise TokenRefusedError("its header names no algorithm")
        if not isinstance(key_id, str) or not 0 < len(key_id) <= KEY_ID_LENGTH_MAX:
            raise TokenRefusedError("its header names no key")
        return WebToken(
            algorithm=algorithm,
            key_id=key_id,
            claims=_document(parts[1]),
            signed=f"{parts[0]}.{parts[1]}".encode(),
            signature=decoded(parts[2]),
        )


def decoded(text: str) -> bytes:
    """The bytes of base64url without padding. Raises: TokenRefusedError."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        raise TokenRefusedError("a part is not base64url") from None
    return data


def encoded(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def shown_subject(text: str) -> str | None:
    """Whom a token names, for showing alone: nothing is verified; None of another kind of token."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        subject = _document(parts[1]).get("sub")
    except TokenRefusedError:
        return None
    return subject if isinstance(subject, str) else None


def _document(part: str) -> dict[str, Any]:
    try:
        document = json.loads(decoded(part), object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError):
        raise TokenRefusedError("a part is not JSON") from None
    if not isinstance(document, dict):
        raise TokenRefusedError("a part is not a JSON object")
    return document


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name is there twice")  # readers differ in which they take
    return document

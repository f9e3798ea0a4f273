"""Whether a bearer token is good, and whose it is: signature, issuer, audience, times. Pure.

Source: RFC 7519, RFC 8725, KIP-768; SEC-28. Unlike Kafka's default nothing is ever taken unverified
(CVE-2026-33557), and issuer and audience must be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas_protocol.web_tokens.key_set import SigningKey, verify_signature
from barnabas_protocol.web_tokens.web_token import TokenRefusedError, WebToken

NAME_LENGTH_MAX: Final = 1_000
_SECONDS_MAX: Final = 1 << 53


class UnknownKeyError(TokenRefusedError):
    """The key that signed the token is not among those that are known."""

    def __init__(self, key_id: str) -> None:
        super().__init__("its key is not known")
        self.key_id = key_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What tokens of a listener must say."""

    issuers: frozenset[str]
    audiences: frozenset[str]
    algorithms: frozenset[str]
    skew_ms: int = 30_000
    name_claim: str = "sub"
    name_prefix: str = ""
    """What names begin with, where tokens of others could come from the same issuer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodToken:
    """Whose a token is, until when it is good, by the wall clock, and what else it says."""

    username: str
    expires_at_ms: int
    token: WebToken = field(repr=False)


def verified(
    text: str, keys: Mapping[str, SigningKey], rules: TokenRules, now_ms: int
) -> GoodToken:
    """What a token is good for now. Raises: TokenRefusedError, UnknownKeyError."""
    token = WebToken.parse(text)
    if token.algorithm not in rules.algorithms:
        raise TokenRefusedError("its algorithm is not allowed")
    key = keys.get(token.key_id)
    if key is None:
        raise UnknownKeyError(token.key_id)
    verify_signature(token, key)
    claims = token.claims
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or issuer not in rules.issuers:
        raise TokenRefusedError("its issuer is another one")
    _check_audience(claims.get("aud"), rules)
    expires_at_ms = _time_ms(claims, "exp")
    if now_ms >= expires_at_ms + rules.skew_ms:
        raise TokenRefusedError("it has expired")
    if _time_ms(claims, "iat") > now_ms + rules.skew_ms:
        raise TokenRefusedError("it was issued in the future")
    if "nbf" in claims and _time_ms(claims, "nbf") > now_ms + rules.skew_ms:
        raise TokenRefusedError("it is not good yet")
    name = claims.get(rules.name_claim)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise TokenRefusedError(f"its claim {rules.name_claim} is not a name")
    if not name.startswith(rules.name_prefix):
        raise TokenRefusedError(f"its claim {rules.name_claim} is somebody else's kind of name")
    return GoodToken(username=name, expires_at_ms=expires_at_ms, token=token)


def _check_audience(audience: object, rules: TokenRules) -> None:
    given = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(one, str) and one in rules.audiences for one in given):
        raise TokenRefusedError("it is for another audience")


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    """A time that a token claims, since the epoch. Raises: TokenRefusedError."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefusedError(f"its claim {name} is not a time")
    if not 0 <= value <= _SECONDS_MAX:  # NaN is in no range
        raise TokenRefusedError(f"its claim {name} is not a time")
    return int(value * 1000)

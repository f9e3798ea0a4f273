"""Whether an ID token is the provider's word about just this log-in, and whose it is. Pure.

Source: OpenID Connect Core 1.0, sections 3.1.3.7, 3.1.3.8 and 12.2; RFC 8725. The signature is
verified although the token comes from the provider's own address.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas_protocol.web_tokens.key_set import ALGORITHMS, SigningKey
from barnabas_protocol.web_tokens.token_rules import TokenRules, verified
from barnabas_protocol.web_tokens.web_token import TokenRefusedError, WebToken, encoded

_DIGESTS: Final = {"256": hashlib.sha256, "384": hashlib.sha384, "512": hashlib.sha512}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdToken:
    """Whom the provider has seen, and until when it says so, by the wall clock."""

    subject: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTokenRules:
    """What a log-in expects. A refreshed token need not repeat the nonce: `is_first` is false."""

    issuer: str
    client_id: str
    nonce: str
    is_first: bool = True


def verified_id_token(
    text: str,
    keys: Mapping[str, SigningKey],
    rules: IdTokenRules,
    access_token: str,
    now_ms: int,
) -> IdToken:
    """Whose token it is. Raises: TokenRefusedError, UnknownKeyError."""
    good = verified(
        text,
        keys,
        TokenRules(
            issuers=frozenset({rules.issuer}),
            audiences=frozenset({rules.client_id}),
            algorithms=frozenset(ALGORITHMS),
        ),
        now_ms,
    )
    claims = good.token.claims
    audience, party = claims.get("aud"), claims.get("azp")
    if isinstance(audience, list) and len(audience) > 1 and party is None:
        raise TokenRefusedError("it is for several, and does not say who asked for it")
    if party is not None and party != rules.client_id:
        raise TokenRefusedError("somebody else asked for it")
    nonce = claims.get("nonce")
    if not (nonce is None and not rules.is_first) and not _same(nonce, rules.nonce):
        raise TokenRefusedError("its nonce is not that of this log-in")
    if "at_hash" in claims and not _same(claims["at_hash"], _half_hash(good.token, access_token)):
        raise TokenRefusedError("it came with another access token")
    return IdToken(subject=good.username, expires_at_ms=good.expires_at_ms)


def _same(given: object, expected: str) -> bool:
    if not isinstance(given, str):
        return False
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _half_hash(token: WebToken, access_token: str) -> str:
    """`at_hash`: the left half of the access token's digest, by the hash of the signature."""
    digest = _DIGESTS[token.algorithm[2:]](access_token.encode()).digest()
    return encoded(digest[: len(digest) // 2])

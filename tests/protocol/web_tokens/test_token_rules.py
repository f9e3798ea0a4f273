"""Bearer tokens: what makes one good, and every way in which one is not."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.web_tokens.key_set import (
    ALGORITHMS,
    KEYS_MAX,
    KeySetError,
    parse_key_set,
)
from barnabas_protocol.web_tokens.token_rules import (
    TokenRules,
    UnknownKeyError,
    verified,
)
from barnabas_protocol.web_tokens.web_token import (
    TOKEN_BYTES_MAX,
    TokenRefusedError,
    WebToken,
)
from tests.support.token_issuer import AUDIENCE, ISSUER, NOW_S, TokenIssuer, encoded, key_set

NOW_MS = NOW_S * 1000
ISSUED = TokenIssuer()
KEYS = parse_key_set(key_set(ISSUED))
RULES = TokenRules(
    issuers=frozenset((ISSUER,)),
    audiences=frozenset((AUDIENCE,)),
    algorithms=frozenset(ALGORITHMS),
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_token_is_its_subjects(algorithm: str) -> None:
    """SEC-28: by every algorithm of RSA and of elliptic curves."""
    issuer = TokenIssuer(algorithm)
    keys = parse_key_set(key_set(issuer))
    good = verified(issuer.token(), keys, RULES, NOW_MS)
    assert (good.username, good.expires_at_ms) == ("alice", NOW_MS + 600_000)
    with pytest.raises(TokenRefusedError, match="not allowed"):
        others = frozenset(ALGORITHMS) - {algorithm}
        verified(issuer.token(), keys, replace(RULES, algorithms=others), NOW_MS)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"aud": None}, "audience"),
        ({"aud": "other"}, "audience"),
        ({"aud": ["other", 5]}, "audience"),
        ({"aud": {"a": AUDIENCE}}, "audience"),
        ({"exp": None}, "exp is not a time"),
        ({"exp": "never"}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": float("nan")}, "exp is not a time"),
        ({"exp": 1e300}, "exp is not a time"),
        ({"exp": NOW_S - 30}, "expired"),
        ({"iat": None}, "iat is not a time"),
        ({"iat": NOW_S + 31}, "in the future"),
        ({"nbf": NOW_S + 31}, "not good yet"),
        ({"nbf": "now"}, "nbf is not a time"),
        ({"sub": None}, "not a name"),
        ({"sub": ""}, "not a name"),
        ({"sub": 5}, "not a name"),
        ({"sub": "a" * 1001}, "not a name"),
    ],
)
def test_claims_that_do_not_hold_are_refused(claims: dict[str, Any], reason: str) -> None:
    """SEC-28: issuer, audience, expiry and time of issue are required, nbf is honoured."""
    with pytest.raises(TokenRefusedError, match=reason) as raised:
        verified(ISSUED.token(**claims), KEYS, RULES, NOW_MS)
    assert "alice" not in str(raised.value)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 29},
        {"iat": NOW_S + 30},
        {"nbf": NOW_S + 30},
        {"aud": AUDIENCE},
        {"aud": ["x", AUDIENCE]},
        {"exp": NOW_S + 0.5},
    ],
)
def test_clocks_may_differ_a_little(claims: dict[str, Any]) -> None:
    """SEC-28: by the skew; an audience is a text or a list."""
    assert verified(ISSUED.token(**claims), KEYS, RULES, NOW_MS).username == "alice"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"alg": "none"}, "not allowed"),
        ({"alg": "HS256"}, "not allowed"),
        ({"alg": "ES384"}, "not one of its key"),
        ({"alg": "RS256"}, "not one of its key"),
        ({"alg": None}, "names no algorithm"),
        ({"alg": ["ES256"]}, "names no algorithm"),
        ({"kid": None}, "names no key"),
        ({"kid": ""}, "names no key"),
        ({"kid": "k" * 1001}, "names no key"),
        ({"kid": "other"}, "not known"),
        ({"crit": ["exp"]}, "must be understood"),
    ],
)
def test_headers_cannot_talk_their_way_in(header: dict[str, Any], reason: str) -> None:
    """SEC-28: neither unsigned, nor by a secret, nor by a key of another kind (RFC 8725)."""
    with pytest.raises(TokenRefusedError, match=reason):
        verified(ISSUED.token(header=header), KEYS, RULES, NOW_MS)


def test_a_changed_token_is_refused() -> None:
    """SEC-28: whatever part of it is another one's."""
    head, body, signature = ISSUED.token().split(".")
    forged = encoded(json.loads(b"{}") | {"sub": "root"})
    other = TokenIssuer().token().split(".")[2]
    for parts in ((head, forged, signature), (head, body, other), (head, body, signature[:-4])):
        with pytest.raises(TokenRefusedError, match="signature"):
            verified(".".join(parts), KEYS, RULES, NOW_MS)


def test_an_unknown_key_is_named() -> None:
    """SEC-28: so that it can be looked for."""
    with pytest.raises(UnknownKeyError) as raised:
        verified(TokenIssuer(key_id="new").token(), KEYS, RULES, NOW_MS)
    assert raised.value.key_id == "new"


def test_names_of_service_accounts_have_their_prefix() -> None:
    """SEC-29: the API server issues tokens for nobody else; others are refused."""
    rules = replace(RULES, name_prefix="system:serviceaccount:")
    name = "system:serviceaccount:shop:orders"
    assert verified(ISSUED.token(sub=name), KEYS, rules, NOW_MS).username == name
    with pytest.raises(TokenRefusedError, match="somebody else"):
        verified(ISSUED.token(), KEYS, rules, NOW_MS)


@given(st.text(max_size=200) | st.binary(max_size=200).map(encoded))
def test_noise_is_refused(text: str) -> None:
    """SEC-112: nothing but a refusal comes out of a reader."""
    for token in (text, f"{text}.{text}.{text}", f"{ISSUED.token().split('.')[0]}.{text}.{text}"):
        with pytest.raises(TokenRefusedError):
            verified(token, KEYS, RULES, NOW_MS)


@pytest.mark.parametrize(
    "document",
    [b"[" * 30_000, b'{"alg":"ES256","alg":"none","kid":"key-1"}', b"5", b"\xff"],
)
def test_what_is_no_document_is_refused(document: bytes) -> None:
    """SEC-112: nor can depth or repetition be used against a reader."""
    part = encoded(document)
    with pytest.raises(TokenRefusedError):
        WebToken.parse(f"{part}.{part}.{part}")
    with pytest.raises(TokenRefusedError, match="too long"):
        WebToken.parse("a" * (TOKEN_BYTES_MAX + 1))


def changed(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda jwk: {key: value for key, value in {**jwk, **fields}.items() if value is not None}


@pytest.mark.parametrize(
    "change",
    [
        changed(kid=None),
        changed(kid="k" * 1001),
        changed(use="enc"),
        changed(kty="oct", k="c2VjcmV0"),
        changed(crv="P-999"),
        changed(x="AA"),
        changed(y=5),
        changed(alg="HS256"),
        changed(alg="none"),
    ],
)
def test_keys_that_cannot_verify_are_left_out(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """SEC-28: a set without any other is none."""
    document = json.dumps({"keys": [change(ISSUED.jwk())]}).encode()
    with pytest.raises(KeySetError):
        parse_key_set(document)


def test_short_keys_are_left_out() -> None:
    """SEC-28: RSA of less than 2048 bits can be broken."""
    jwk = TokenIssuer("RS256").jwk() | {"n": encoded((1 << 1023 | 1).to_bytes(128))}
    with pytest.raises(KeySetError):
        parse_key_set(json.dumps({"keys": [jwk]}).encode())


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"keys": 5}', b'{"keys": [5]}', b"{" * 5_000, b"[" * 100_000]
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    """SEC-28: a page of an error, for example."""
    with pytest.raises(KeySetError):
        parse_key_set(data)


def test_the_number_of_keys_is_bounded() -> None:
    """SEC-28: each costs memory and time."""
    jwk = ISSUED.jwk()
    many = {"keys": [jwk | {"kid": str(number)} for number in range(KEYS_MAX + 5)]}
    assert len(parse_key_set(json.dumps(many).encode())) == KEYS_MAX

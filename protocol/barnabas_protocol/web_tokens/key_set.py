"""JSON Web Key Sets: the public keys of an issuer, and signatures verified by them. Pure.

A key verifies what fits its kind: RSA keys RS and PS, elliptic curves the one algorithm of their
curve, and a key that names an algorithm that one alone. Symmetric keys are passed over, so that no
algorithm can turn a public key into a secret. Keys that cannot be used are left out, as a set may
hold keys for other purposes.

Source: RFC 7517, RFC 7518.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from barnabas_protocol.web_tokens.web_token import (
    KEY_ID_LENGTH_MAX,
    TokenRefusedError,
    WebToken,
    decoded,
)

ALGORITHMS: Final = tuple(
    f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)
)
DOCUMENT_BYTES_MAX: Final = 1024 * 1024
KEYS_MAX: Final = 200
RSA_BITS: Final = range(2048, 8192 + 1)

PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class _Curve(NamedTuple):
    curve: type[ec.EllipticCurve]
    algorithm: str
    size: int  # of a coordinate, and of half a signature


_CURVES: Final = {
    "P-256": _Curve(ec.SECP256R1, "ES256", 32),
    "P-384": _Curve(ec.SECP384R1, "ES384", 48),
    "P-521": _Curve(ec.SECP521R1, "ES512", 66),
}
_SIZES: Final = {curve.algorithm: curve.size for curve in _CURVES.values()}


class SigningKey(NamedTuple):
    """A public key and the algorithms that it verifies."""

    key: PublicKey
    algorithms: tuple[str, ...]


class KeySetError(ValueError):
    """A document is not a key set with a key that can be used."""


def parse_key_set(data: bytes) -> dict[str, SigningKey]:
    """The keys of a document by their ids. Raises: KeySetError where there is none."""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise KeySetError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise KeySetError("it is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise KeySetError("it is not a JSON Web Key Set")
    keys: dict[str, SigningKey] = {}
    for entry in entries[:KEYS_MAX]:
        key = _signing_key(entry) if isinstance(entry, dict) else None
        if key is not None:
            keys[entry["kid"]] = key
    if not keys:
        raise KeySetError("none of its keys can verify a signature and has an id")
    return keys


def _signing_key(entry: Mapping[str, Any]) -> SigningKey | None:
    key_id = entry.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= KEY_ID_LENGTH_MAX:
        return None
    if entry.get("use", "sig") != "sig":
        return None
    try:
        match entry.get("kty"):
            case "RSA":
                key = _rsa(entry)
            case "EC":
                key = _elliptic(entry)
            case _:
                return None
    except (KeyError, TypeError, ValueError, TokenRefusedError):
        return None
    named = entry.get("alg")
    if named is None:
        return key
    return SigningKey(key.key, (named,)) if named in key.algorithms else None


def _rsa(entry: Mapping[str, Any]) -> SigningKey:
    numbers = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"]))
    if numbers.n.bit_length() not in RSA_BITS:
        raise ValueError("the key is too short or too long")
    return SigningKey(numbers.public_key(), tuple(a for a in ALGORITHMS if a[0] != "E"))


def _elliptic(entry: Mapping[str, Any]) -> SigningKey:
    curve = _CURVES[entry["crv"]]
    numbers = ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), curve.curve())
    return SigningKey(numbers.public_key(), (curve.algorithm,))


def _number(text: str) -> int:
    if len(text) > 2 * RSA_BITS[-1] // 8:
        raise ValueError("the number is too long")
    return int.from_bytes(decoded(text))


def verify_signature(token: WebToken, key: SigningKey) -> None:
    """Return if the key has signed the token. Raises: TokenRefusedError."""
    algorithm, public = token.algorithm, key.key
    if algorithm not in key.algorithms:
        raise TokenRefusedError("its algorithm is not one of its key")
    digest = _digest_of(algorithm)
    try:
        if isinstance(public, rsa.RSAPublicKey):
            public.verify(token.signature, token.signed, _padding_of(algorithm, digest), digest)
        else:
            signature = _der_of(token.signature, _SIZES[algorithm])
            public.verify(signature, token.signed, ec.ECDSA(digest))
    except InvalidSignature:
        raise TokenRefusedError("its signature is wrong") from None


def _digest_of(algorithm: str) -> HashAlgorithm:
    digests: dict[str, type[HashAlgorithm]] = {"256": SHA256, "384": SHA384, "512": SHA512}
    return digests[algorithm[2:]]()


def _padding_of(algorithm: str, digest: HashAlgorithm) -> padding.PKCS1v15 | padding.PSS:
    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    return padding.PSS(padding.MGF1(digest), digest.digest_size)


def _der_of(signature: bytes, size: int) -> bytes:
    if len(signature) != 2 * size:
        raise TokenRefusedError("its signature has the wrong length")
    return encode_dss_signature(int.from_bytes(signature[:size]), int.from_bytes(signature[size:]))

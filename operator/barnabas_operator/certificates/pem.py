"""PEM text and the certificates in it: reading, digests, what a bundle and a chain are. Pure.

A bundle holds anchors only: each certificate in it is trusted for itself, so an issuer above an
authority is never among them (CVE-2026-27133). A chain begins with a leaf and goes on with the
intermediates that lead to an anchor, which is left out.

Invariant: the digest of a bundle depends on its certificates, not on their order or spelling; it is
what brokers report of the bundle that they have loaded (SEC-81).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
# Of a mounted Secret, which has a megabyte at most; nobody has chains of hundreds.
_CERTIFICATES_MAX = 100


class CertificateError(ValueError):
    """What should be a certificate, a key or a pair of them is not."""


@lru_cache(maxsize=4096)
def certificates_of(text: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM text, in its order. Raises: CertificateError."""
    try:
        found = tuple(x509.load_pem_x509_certificates(text.encode()))
    except ValueError as error:
        raise CertificateError(f"no certificate in PEM: {error}") from None
    if len(found) > _CERTIFICATES_MAX:
        raise CertificateError(f"{len(found)} certificates, {_CERTIFICATES_MAX} at most")
    return found


def first_certificate(text: str) -> x509.Certificate:
    """The certificate that a PEM text begins with. Raises: CertificateError."""
    return certificates_of(text)[0]


def key_of(text: str) -> PrivateKey:
    """The private key of a PEM text. Raises: CertificateError."""
    try:
        found = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"no private key in PEM: {error}") from None
    if not isinstance(found, PrivateKey):
        raise CertificateError("a private key is ECDSA or RSA")
    return found


def certificate_text(certificate: x509.Certificate) -> str:
    """The PEM text of one certificate."""
    return certificate.public_bytes(Encoding.PEM).decode()


def key_text(key: PrivateKey) -> str:
    """The PEM text of a private key, in the form that Java reads, too (PKCS #8)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def fits(certificate: x509.Certificate, key: PrivateKey) -> bool:
    """Whether a key is the certificate's."""
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    return certificate.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)


def is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether the issuer's key has signed it; dates are not looked at."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Whether it is its own issuer, as a root is."""
    return is_signed_by(certificate, certificate)


def bundle_of(anchors: Iterable[x509.Certificate]) -> str:
    """The PEM text of a bundle: each anchor once, in the order that was given."""
    return "".join(certificate_text(one) for one in dict.fromkeys(anchors))


def bundle_digest(text: str) -> str:
    """What a broker reports that has loaded this bundle. Raises: CertificateError."""
    return digest_of(certificates_of(text))


def digest_of(anchors: Iterable[x509.Certificate]) -> str:
    """The digest of a bundle of these certificates: SHA-256 of their sorted SHA-256, in hex."""
    prints = sorted({hashlib.sha256(one.public_bytes(Encoding.DER)).digest() for one in anchors})
    return hashlib.sha256(b"".join(prints)).hexdigest()


def starts(certificate: x509.Certificate) -> datetime:
    """From when it is valid, in UTC."""
    return certificate.not_valid_before_utc


def ends(certificate: x509.Certificate) -> datetime:
    """Until when it is valid, in UTC."""
    return certificate.not_valid_after_utc

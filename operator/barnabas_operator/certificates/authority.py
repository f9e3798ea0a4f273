"""An authority: the certificate and key that leaves are signed with, and the leaves. Pure.

A Broker has two (SEC-81): one for brokers and the operator, one for clients, so that no client's
certificate is ever worth anything where brokers talk to each other.

Not here: when something is renewed (`renewal.py`), which names a broker has (`leaf_names.py`).

Source: RFC 5280. Invariants: a leaf never outlives its authority; keys are ECDSA on P-256, since
RSA signs far slower on a broker's one loop (SEC-8); dates begin a little earlier than now, for
clocks differ.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas_operator.certificates.pem import (
    CertificateError,
    PrivateKey,
    certificate_text,
    certificates_of,
    ends,
    fits,
    is_self_signed,
    is_signed_by,
    key_of,
    key_text,
)

AUTHORITY_VALIDITY = timedelta(days=5 * 365)
LEAF_VALIDITY = timedelta(days=90)
# Of clocks that are not quite right.
CLOCK_SKEW = timedelta(minutes=5)
_COMMON_NAME_CHARACTERS_MAX = 64  # RFC 5280, ub-common-name


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafRequest:
    """What a leaf is to say. `hosts` are names and addresses that it is valid for."""

    common_name: str
    organization: str = ""
    hosts: tuple[str, ...] = ()
    is_server: bool = False
    is_client: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate with what follows it in its chain, and its key, both as PEM."""

    chain: str
    key: str = field(repr=False)

    @property
    def certificate(self) -> x509.Certificate:
        """The first of the chain."""
        return certificates_of(self.chain)[0]

    def check(self) -> None:
        """Raises: CertificateError where key and certificate are not of each other."""
        if not fits(self.certificate, key_of(self.key)):
            raise CertificateError("the key is not that of the certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Signs leaves; `pair.chain` goes on with its own issuers, if it is no root."""

    pair: KeyPair

    @property
    def certificate(self) -> x509.Certificate:
        """Its own one, which is the anchor: what stands above it is not trusted for its sake."""
        return self.pair.certificate

    @property
    def ends(self) -> datetime:
        """Until when it is valid."""
        return ends(self.certificate)

    def has_ended(self, now: datetime) -> bool:
        """Whether nothing that it has signed is valid any more."""
        return now >= self.ends

    def has_signed(self, leaf: x509.Certificate) -> bool:
        """Whether a certificate is one of its leaves."""
        return is_signed_by(leaf, self.certificate)

    def issue(
        self, request: LeafRequest, now: datetime, validity: timedelta = LEAF_VALIDITY
    ) -> KeyPair:
        """A leaf with a new key, and its chain. Raises: CertificateError, also by its age."""
        if self.has_ended(now):
            raise CertificateError(f"the authority has ended at {self.ends:%Y-%m-%dT%H:%MZ}")
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [
            usage
            for usage, is_wanted in (
                (ExtendedKeyUsageOID.SERVER_AUTH, request.is_server),
                (ExtendedKeyUsageOID.CLIENT_AUTH, request.is_client),
            )
            if is_wanted
        ]
        builder = (
            _builder(_name(request.common_name, request.organization), key, now)
            .issuer_name(self.certificate.subject)
            .not_valid_after(min(now + validity, self.ends))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(_public_key(self.certificate)),
                critical=False,
            )
        )
        if request.hosts:
            builder = builder.add_extension(subject_names(request.hosts), critical=False)
        leaf = builder.sign(key_of(self.pair.key), hashes.SHA256())
        return KeyPair(chain=certificate_text(leaf) + self._sent_after_leaves(), key=key_text(key))

    def _sent_after_leaves(self) -> str:
        """The intermediates: a root is never sent, who does not have it would not take it."""
        return "".join(
            certificate_text(one)
            for one in certificates_of(self.pair.chain)
            if not is_self_signed(one)
        )


def new_authority(name: str, now: datetime, validity: timedelta = AUTHORITY_VALIDITY) -> Authority:
    """A root of its own, with a new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities of the same name would be taken for each other by who goes by names.
    subject = _name(f"{name} {now:%Y%m%d%H%M%S}", "Barnabas")
    certificate = (
        _builder(subject, key, now)
        .issuer_name(subject)
        .not_valid_after(now + validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(pair=KeyPair(chain=certificate_text(certificate), key=key_text(key)))


def read_authority(chain: str, key: str) -> Authority:
    """An authority that somebody else has made. Raises: CertificateError."""
    pair = KeyPair(chain=chain, key=key)
    pair.check()
    try:
        constraints = pair.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        raise CertificateError("the certificate is not that of an authority") from None
    if not constraints.value.ca:
        raise CertificateError("the certificate is not that of an authority")
    return Authority(pair=pair)


def subject_names(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    """The names and addresses as a certificate has them, each once, in order."""
    return x509.SubjectAlternativeName([_general_name(host) for host in dict.fromkeys(hosts)])


def hosts_of(certificate: x509.Certificate) -> frozenset[str]:
    """The names and addresses that a certificate is valid for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset((*found.get_values_for_type(x509.DNSName), *map(str, addresses)))


def subject_of(certificate: x509.Certificate) -> str:
    """Its subject as RFC 2253 writes it, most specific first."""
    return certificate.subject.rfc4514_string()


def request_subject(request: LeafRequest) -> str:
    """The subject of a leaf by this request, as `subject_of` has it."""
    return _name(request.common_name, request.organization).rfc4514_string()


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise CertificateError(f"{host!r} is no name of a host: {error}") from None


def _name(common_name: str, organization: str) -> x509.Name:
    if not 0 < len(common_name) <= _COMMON_NAME_CHARACTERS_MAX:
        raise CertificateError(
            f"{common_name!r} cannot be in a certificate: a common name has 1 to"
            f" {_COMMON_NAME_CHARACTERS_MAX} characters"
        )
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    # The least specific first, so that RFC 2253 begins with the common name.
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, key: PrivateKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _public_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    found = certificate.public_key()
    if not isinstance(found, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise CertificateError("the key of an authority is ECDSA or RSA")
    return found


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )

"""A key, its certificate chain and the anchors by which others are verified, read and checked.

Pure: the files' bytes and the time are given. What is checked here is what is loaded later, so a
file that changes meanwhile changes nothing. Errors say which file or setting is wrong, in one line,
and never show a key.

Source: SEC-2, SEC-5. Each certificate of the trust store is an anchor; chains hold their
intermediates (CVE-2026-27133: a chain's authorities are not trusted by being sent).
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.tls_settings import ListenerTlsSettings

RSA_BITS: Final = (2048, 4096)
"""Smaller ones are not safe; a larger one signs for longer than the loop may be held."""
CERTIFICATES_MAX: Final = 1_000
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaterial:
    """What one version of a listener's files holds."""

    key: PrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...]  # the broker's own first
    anchors: tuple[x509.Certificate, ...]

    @property
    def key_pem(self) -> bytes:
        """The key as OpenSSL loads it, without a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    @property
    def chain_pem(self) -> bytes:
        """The chain as OpenSSL loads it."""
        return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in self.chain)

    @property
    def anchors_pem(self) -> str:
        """The anchors as OpenSSL loads them."""
        return b"".join(
            one.public_bytes(serialization.Encoding.PEM) for one in self.anchors
        ).decode()

    @property
    def own(self) -> x509.Certificate:
        """The broker's certificate."""
        return self.chain[0]

    @property
    def subject(self) -> str:
        """The distinguished name of the broker's certificate."""
        return self.own.subject.rfc4514_string()

    @property
    def names(self) -> frozenset[str]:
        """Its alternative names: DNS names in lower case, and addresses."""
        return _names(self.own)

    @property
    def not_after_ms(self) -> int:
        """When the first certificate of the chain ends."""
        return min(int(one.not_valid_after_utc.timestamp() * 1000) for one in self.chain)

    @property
    def fingerprint(self) -> str:
        """What tells the broker's certificate from others."""
        return hashlib.sha256(self.own.public_bytes(serialization.Encoding.DER)).hexdigest()

    @property
    def anchors_hash(self) -> str:
        """What tells these anchors from others, in whatever order a file has them."""
        digests = sorted(
            hashlib.sha256(one.public_bytes(serialization.Encoding.DER)).digest()
            for one in self.anchors
        )
        return hashlib.sha256(b"".join(digests)).hexdigest()

    def covers(self, host: str) -> bool:
        """Whether clients that verify names accept this certificate at a host."""
        try:
            return str(ipaddress.ip_address(host)) in self.names
        except ValueError:
            pass
        name = host.lower().rstrip(".")
        _, dot, parent = name.partition(".")
        return name in self.names or (bool(dot) and f"*.{parent}" in self.names)


def read_material(settings: ListenerTlsSettings, files: Mapping[str, bytes]) -> KeyMaterial:
    """The key, chain and anchors of a listener, from the bytes of the files that it names.

    Raises: ConfigError where something cannot be read as what it should be.
    """
    if settings.keystore_file is not None:
        text = _text(settings.keystore_file, files[settings.keystore_file])
        key_source = chain_source = settings.keystore_file
        key_text = chain_text = text
    elif settings.certificate_file is not None and settings.key_file is not None:
        key_source, chain_source = settings.key_file, settings.certificate_file
        key_text = _text(key_source, files[key_source])
        chain_text = _text(chain_source, files[chain_source])
    else:
        key_source, chain_source = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        key_text, chain_text = settings.inline_key or "", settings.inline_chain or ""
    anchors: tuple[x509.Certificate, ...] = ()
    if settings.truststore_file is not None:
        source = settings.truststore_file
        anchors = _certificates(source, _text(source, files[source]))
    elif settings.inline_anchors is not None:
        anchors = _certificates("ssl.truststore.certificates", settings.inline_anchors)
    return KeyMaterial(
        key=_key(key_source, key_text, settings.key_password),
        chain=_certificates(chain_source, chain_text),
        anchors=anchors,
    )


def files_of(settings: ListenerTlsSettings) -> list[str]:
    """The files that a listener's settings name."""
    paths = (
        settings.keystore_file,
        settings.certificate_file,
        settings.key_file,
        settings.truststore_file,
    )
    return [path for path in paths if path is not None]


def _text(source: str, content: bytes) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError:
        hint = "it looks like a store of Java's" if content[:2] == b"\xfe\xed" else "it is binary"
        raise ConfigError(f"{source} is not in PEM form: {hint}") from None


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """The labelled blocks of PEM, each on lines of its own again.

    A value in a properties file may have lost its line breaks.
    """
    found = []
    for match in _BLOCK.finditer(text):
        label, body = match.groups()
        if ":" not in body:  # without headers, as those of older encrypted keys
            joined = "".join(body.split())
            body = "\n".join(["", *re.findall(r".{1,64}", joined), ""])
        found.append((label, f"-----BEGIN {label}-----{body}-----END {label}-----\n".encode()))
    return found


def _certificates(source: str, text: str) -> tuple[x509.Certificate, ...]:
    blocks = [block for label, block in _blocks(text) if label.endswith("CERTIFICATE")]
    if not blocks:
        raise ConfigError(f"{source} has no certificate in PEM form")
    if len(blocks) > CERTIFICATES_MAX:
        raise ConfigError(f"{source} has more than {CERTIFICATES_MAX} certificates")
    found = []
    for number, block in enumerate(blocks, 1):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except ValueError as error:
            raise ConfigError(f"{source}: certificate {number} cannot be read: {error}") from None
    return tuple(found)


def _key(source: str, text: str, password: str | None) -> PrivateKey:
    blocks = [block for label, block in _blocks(text) if label.endswith("PRIVATE KEY")]
    if len(blocks) != 1:
        raise ConfigError(f"{source} has {len(blocks) or 'no'} private key in PEM form")
    try:
        key = _load(blocks[0], password)
    except TypeError:
        raise ConfigError(f"{source}: the key is encrypted; give ssl.key.password") from None
    except (ValueError, UnsupportedAlgorithm):
        reason = "or ssl.key.password is wrong" if password is not None else "or it is damaged"
        raise ConfigError(f"{source}: the key cannot be read: unknown form, {reason}") from None
    if isinstance(key, rsa.RSAPrivateKey):
        low, high = RSA_BITS
        if not low <= key.key_size <= high:
            raise ConfigError(
                f"{source}: an RSA key of {key.key_size} bits; {low} to {high} are possible, and "
                "ECDSA P-256 is better"
            )
        return key
    if isinstance(key, (ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)):
        return key
    raise ConfigError(f"{source}: the key is neither ECDSA, Ed25519 nor RSA")


def _load(block: bytes, password: str | None) -> object:
    encoded = None if password is None else password.encode()
    try:
        return serialization.load_pem_private_key(block, encoded)
    except TypeError:
        if encoded is None:
            raise
        # A password for a key that has none does no harm.
        return serialization.load_pem_private_key(block, None)


def check_material(
    material: KeyMaterial, settings: ListenerTlsSettings, now_ms: int, *, is_of_brokers: bool
) -> None:
    """Check that this can serve: key fits, chain verifies, dates hold, uses are allowed.

    Raises: ConfigError.
    """
    where = settings.listener
    if material.key.public_key() != material.own.public_key():
        raise ConfigError(f"{where}: the key is not that of the certificate {material.subject}")
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    for one in material.chain:
        _check_dates(where, one, now)
    for signed, signer in zip(material.chain, material.chain[1:], strict=False):
        if not _is_signed_by(signed, signer):
            raise ConfigError(
                f"{where}: the chain does not verify: {signed.subject.rfc4514_string()} is not "
                f"signed by the next, {signer.subject.rfc4514_string()}"
            )
    valid = [one for one in material.anchors if now <= one.not_valid_after_utc]
    if material.anchors and not valid:
        raise ConfigError(f"{where}: every certificate of the trust store has expired")
    _check_use(where, material.own, ExtendedKeyUsageOID.SERVER_AUTH, "servers")
    if is_of_brokers:
        _check_use(where, material.own, ExtendedKeyUsageOID.CLIENT_AUTH, "clients")
        if not _is_anchored(material.chain, valid):
            raise ConfigError(
                f"{where}: brokers would not accept one another: {material.subject} is signed by "
                "none of the trust store"
            )


def _check_dates(where: str, one: x509.Certificate, now: datetime) -> None:
    subject = one.subject.rfc4514_string()
    if now > one.not_valid_after_utc:
        raise ConfigError(f"{where}: {subject} has expired on {one.not_valid_after_utc:%F %T} UTC")
    if now < one.not_valid_before_utc:
        begin = f"{one.not_valid_before_utc:%F %T} UTC"
        raise ConfigError(f"{where}: {subject} is not valid before {begin}")


def _check_use(where: str, one: x509.Certificate, use: x509.ObjectIdentifier, whom: str) -> None:
    try:
        uses = one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if use not in uses and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in uses:
        subject = one.subject.rfc4514_string()
        raise ConfigError(f"{where}: {subject} is not for {whom} by its extended key usage")


def _is_signed_by(signed: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        signed.verify_directly_issued_by(signer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_anchored(chain: Sequence[x509.Certificate], anchors: Sequence[x509.Certificate]) -> bool:
    return any(one == anchor or _is_signed_by(one, anchor) for one in chain for anchor in anchors)


def _names(certificate: x509.Certificate) -> frozenset[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    return frozenset(hosts | {str(one) for one in names.get_values_for_type(x509.IPAddress)})

"""Authorities and certificates for tests, made in the process: any name, key, date and use.

Faster than the `openssl` program (`tls_files.py`), and able to make what it cannot: half files,
certificates that have expired, chains that do not fit.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def key_pem(key: Key, password: str | None = None) -> bytes:
    hidden = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password.encode())
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key, and the intermediates that belong to it."""

    key: Key
    certificate: x509.Certificate
    intermediates: tuple[x509.Certificate, ...] = ()

    @property
    def key_pem(self) -> bytes:
        return key_pem(self.key)

    @property
    def chain_pem(self) -> bytes:
        return b"".join(pem(one) for one in (self.certificate, *self.intermediates))

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def write(self, directory: Path, name: str = "tls") -> tuple[Path, Path]:
        """Write chain and key; returns both paths."""
        directory.mkdir(parents=True, exist_ok=True)
        chain, key = directory / f"{name}.crt", directory / f"{name}.key"
        chain.write_bytes(self.chain_pem)
        key.write_bytes(self.key_pem)
        return chain, key


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class Authority:
    """Signs certificates."""

    def __init__(self, name: str = "Test Authority", parent: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = common_name(name)
        self.parent = parent
        signer = self if parent is None else parent
        now = datetime.datetime.now(datetime.UTC)
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + 3650 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(signer.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return pem(self.certificate)

    def issue(
        self,
        name: str | x509.Name = "localhost",
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        key: Key | None = None,
        begins: datetime.timedelta = -DAY,
        ends: datetime.timedelta = 90 * DAY,
        uses: Sequence[x509.ObjectIdentifier] = (SERVER, CLIENT),
    ) -> Issued:
        own = key or ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(common_name(name) if isinstance(name, str) else name)
            .issuer_name(self.name)
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        intermediates = []
        signer = self
        while signer.parent is not None:
            intermediates.append(signer.certificate)
            signer = signer.parent
        return Issued(own, certificate, tuple(intermediates))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

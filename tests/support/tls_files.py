"""Certificates for tests, made when they are needed: an authority, a broker's, a client's.

Made by the `openssl` program; where it is missing the error names it.
"""

import shutil
import subprocess
from pathlib import Path

KEYSTORE_PASSWORD = "changeit"


class TlsFiles:
    """Files in one directory; `create` makes them all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = directory / "authority.pem"
        self.broker_certificate = directory / "broker.pem"
        self.broker_key = directory / "broker.key"
        self.client_certificate = directory / "client.pem"
        self.client_key = directory / "client.key"
        self.other_authority = directory / "other.pem"
        self.broker_keystore = directory / "broker.p12"

    def create(self, host: str = "localhost") -> "TlsFiles":
        """Make an authority, and certificates by it for a broker at `host` and for a client."""
        if shutil.which("openssl") is None:
            raise RuntimeError("install the program openssl: it makes the certificates of tests")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._authority(self.authority, "Test Authority")
        self._authority(self.other_authority, "Another Authority")
        self._certificate(self.broker_certificate, self.broker_key, host)
        self._certificate(self.client_certificate, self.client_key, "client")
        self._openssl(
            *("pkcs12", "-export", "-name", "broker", "-passout", f"pass:{KEYSTORE_PASSWORD}"),
            *("-in", str(self.broker_certificate), "-inkey", str(self.broker_key)),
            *("-certfile", str(self.authority), "-out", str(self.broker_keystore)),
        )
        return self

    def issue(self, name: str, *hosts: str, by: Path | None = None) -> tuple[Path, Path]:
        """A certificate of a subject for some hosts, by an authority of `create`, and its key."""
        authority = by or self.authority
        certificate = self.directory / f"{authority.stem}-{name}.crt"
        key = certificate.with_suffix(".pem-key")
        self._certificate(certificate, key, name, hosts or (name,), authority)
        return certificate, key

    def _authority(self, certificate: Path, name: str) -> None:
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "3650", "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 asks for it
            *("-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)),
        )

    def _certificate(
        self,
        certificate: Path,
        key: Path,
        name: str,
        hosts: tuple[str, ...] = (),
        authority: Path | None = None,
    ) -> None:
        authority = authority or self.authority
        request = certificate.with_suffix(".csr")
        self._openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        names = certificate.with_suffix(".names")
        alternatives = ",".join(f"DNS:{host}" for host in hosts or (name,))
        names.write_text(f"subjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n")
        self._openssl(
            *("x509", "-req", "-in", str(request), "-days", "3650", "-CAcreateserial"),
            *("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key"))),
            *("-extfile", str(names), "-out", str(certificate)),
        )

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed:\n{done.stderr}")

"""The files and settings of `barnabas dev --secure`: an authority, certificates, a super user.

The layout is a contract, in the folder `secure` of the data:

    ca.crt              whom clients trust
    client.properties   a super user's, for Java's tools and for `barnabas --command-config`
    librdkafka.conf     the same for librdkafka, as `kcat -F` takes it

All paths in them are absolute. Beside them: `ca.key`, a certificate with its key for each broker,
and `users`, the password that brokers store as a SCRAM credential when they are founded. What is a
secret is made once and kept; what follows from it is written anew when ports or places change.

Invariants: nobody else may read a file of the folder; a file that is as it should be is not
written. Source: SEC-2, SEC-60, SEC-61, SEC-100.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from barnabas_operator.certificates.authority import Authority

FOLDER: Final = "secure"
CLIENT_LISTENER: Final = "SASL_SSL"
BROKER_LISTENER: Final = "REPLICATION"
MECHANISM: Final = "SCRAM-SHA-512"
SUPER_USER: Final = "admin"
_PASSWORD_BYTES: Final = 24
_AUTHORITY_VALIDITY: Final = timedelta(days=10 * 365)
_LEAF_VALIDITY: Final = timedelta(days=365)
_LEAF_RENEWAL: Final = timedelta(days=90)
"""A certificate that ends sooner than this is made anew at a start."""
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSecurity:
    """What a secure cluster on this machine has in its folder."""

    data: Path
    count: int
    bootstrap: str

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.data.resolve() / FOLDER

    @property
    def client_properties(self) -> Path:
        """The properties file of the super user."""
        return self.folder / "client.properties"

    def write_broker_files(self, now: datetime) -> None:
        """Make what brokers are started with, and renew what is about to end; no port is in it."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        authority = self._authority(now)
        for number in range(self.count):
            self._certificate(authority, number, now)
        self._password()

    def write_client_files(self) -> None:
        """Write what clients are given, with the addresses of the brokers."""
        password = self._password()
        _write(self.client_properties, self._client_properties(password))
        _write(self.folder / "librdkafka.conf", self._librdkafka_settings(password))

    def settings(self, number: int) -> dict[str, str]:
        """The settings of one broker, besides its listeners."""
        replication = f"listener.name.{BROKER_LISTENER.lower()}"
        return {
            "listener.security.protocol.map": (
                f"{CLIENT_LISTENER}:{CLIENT_LISTENER},{BROKER_LISTENER}:SSL"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._certificate_path(number)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.crt"),
            f"{replication}.ssl.client.auth": "required",
            "barnabas.broker.principals": "User:CN=broker-{id}",
            "sasl.enabled.mechanisms": MECHANISM,
            "authorizer.class.name": "StandardAuthorizer",
            "super.users": f"User:{SUPER_USER}",
            "barnabas.bootstrap.users.file": str(self._users_path),
        }

    @property
    def _users_path(self) -> Path:
        return self.folder / "users"

    def _certificate_path(self, number: int) -> Path:
        return self.folder / f"broker-{number}.pem"

    def _authority(self, now: datetime) -> Authority:
        from barnabas_operator.certificates.authority import new_authority, read_authority

        chain, key = self.folder / "ca.crt", self.folder / "ca.key"
        if chain.exists() and key.exists():
            return read_authority(chain.read_text("utf-8"), key.read_text("utf-8"))
        made = new_authority("barnabas dev", now, _AUTHORITY_VALIDITY)
        _write(key, made.pair.key)
        _write(chain, made.pair.chain)
        return made

    def _certificate(self, authority: Authority, number: int, now: datetime) -> None:
        from barnabas_operator.certificates.authority import LeafRequest
        from barnabas_operator.certificates.pem import certificates_of, ends

        path = self._certificate_path(number)
        if path.exists():
            found = certificates_of(path.read_text("utf-8"))[0]
            if authority.has_signed(found) and ends(found) - now > _LEAF_RENEWAL:
                return
        request = LeafRequest(
            common_name=f"broker-{number}", hosts=_HOSTS, is_server=True, is_client=True
        )
        pair = authority.issue(request, now, _LEAF_VALIDITY)
        _write(path, pair.key + pair.chain)

    def _password(self) -> str:
        """The super user's, made at the first start."""
        path = self._users_path
        if path.exists():
            for line in path.read_text("utf-8").splitlines():
                name, _, password = line.partition("=")
                if name == SUPER_USER and password:
                    return password
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        _write(path, f"{SUPER_USER}={password}\n")
        return password

    def _client_properties(self, password: str) -> str:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        properties = _lines(
            {
                "bootstrap.servers": self.bootstrap,
                "security.protocol": CLIENT_LISTENER,
                "sasl.mechanism": MECHANISM,
                "sasl.jaas.config": (
                    f'{module} required username="{SUPER_USER}" password="{password}";'
                ),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.folder / "ca.crt"),
            }
        )
        return properties.replace("\\", "\\\\")

    def _librdkafka_settings(self, password: str) -> str:
        return _lines(
            {
                "bootstrap.servers": self.bootstrap,
                "security.protocol": CLIENT_LISTENER.lower(),
                "sasl.mechanisms": MECHANISM,
                "sasl.username": SUPER_USER,
                "sasl.password": password,
                "ssl.ca.location": str(self.folder / "ca.crt"),
            }
        )


def check_data(data: Path, *, is_secure: bool) -> None:
    """Refuse to serve without security what was made with it. Raises: click.UsageError."""
    if not is_secure and (data / FOLDER / "ca.crt").exists():
        raise click.UsageError(
            f"{data} holds the data of a secure cluster: start it with --secure, or name another"
            " folder with --data."
        )


def now() -> datetime:
    """The time that certificates are made at."""
    from barnabas_client.env import SystemClock

    return datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC)


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _write(path: Path, text: str) -> None:
    """Have the file say this and be its owner's alone; whole, or as it was."""
    if path.exists() and path.read_text("utf-8") == text:
        path.chmod(0o600)
        return
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as written:
        written.write(text)
    beside.replace(path)

"""TLS on one listener: what new connections are served with, and its renewal.

New contexts replace the old ones in one assignment; connections that are open keep theirs. What
cannot serve is refused and the old goes on: a pair that is half written or does not match, a chain
that does not verify, dates that do not hold, a certificate that lacks a name the present one has.

Reads files, in whatever thread it is called; everything else is pure.

Source: SEC-5, SEC-6; KIP-226 for changes by AlterConfigs.
"""

from __future__ import annotations

import errno
import logging
import ssl
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.tls_settings import ListenerTlsSettings
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_mapping import MappingError, PrincipalMapping
from barnabas_broker.security.tls.contexts import (
    client_context,
    handshakes_at_once,
    server_context,
)
from barnabas_broker.security.tls.distinguished_name import read_shown
from barnabas_broker.security.tls.key_material import (
    KeyMaterial,
    check_material,
    files_of,
    read_material,
)

_log = logging.getLogger(__name__)

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
"""A file of keys or certificates that is larger is none."""
_DATA_LINK: Final = "..data"
"""In a volume of Kubernetes: the version of all its files, replaced in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTls:
    """One version of everything: contexts, and what they were made of."""

    settings: ListenerTlsSettings
    files: Mapping[str, bytes]
    material: KeyMaterial
    server: ssl.SSLContext
    client: ssl.SSLContext | None
    mapping: PrincipalMapping
    handshakes_max: int


class CertificateIdentity(NamedTuple):
    """Who is at the other end by their certificate, and until when that says so."""

    principal: Principal
    not_after_ms: int


class ListenerTls:
    """The TLS of one listener, as it is now."""

    __slots__ = (
        "_advertised_host",
        "_is_of_brokers",
        "_refused_files",
        "failed_reloads",
        "last_error",
        "listener",
        "loaded",
        "reloads",
    )

    def __init__(
        self,
        settings: ListenerTlsSettings,
        *,
        now_ms: int,
        is_of_brokers: bool,
        advertised_host: str = "",
    ) -> None:
        """Load what the settings name. Raises: ConfigError."""
        self.listener = settings.listener
        self._is_of_brokers = is_of_brokers
        self._advertised_host = advertised_host
        self._refused_files: Mapping[str, bytes] = {}
        self.reloads = 0
        self.failed_reloads = 0
        self.last_error = ""
        """Why the last renewal was refused; empty when it was not."""
        self.loaded = self._load(settings, read_files(files_of(settings)), now_ms)
        self._warn_of(self.loaded)

    # What connections need.

    @property
    def server(self) -> ssl.SSLContext:
        """For the next connection of a client."""
        return self.loaded.server

    @property
    def client(self) -> ssl.SSLContext:
        """For the next connection to another broker."""
        client = self.loaded.client
        assert client is not None, "only brokers connect"
        return client

    @property
    def handshakes_max(self) -> int:
        """How many handshakes may be under way at once."""
        return self.loaded.handshakes_max

    def identity_of(self, connection: Any, now_ms: int) -> CertificateIdentity | None:
        """Who has shown a certificate on a connection (its `ssl_object`); None where none did.

        Raises: MappingError where no rule matches, ValueError where it cannot be read or has ended:
        OpenSSL verifies nothing again where a session of TLS 1.2 is resumed.
        """
        if self.loaded.settings.client_auth == "none":
            return None
        certificate = connection.getpeercert(binary_form=True)
        if certificate is None:
            return None
        shown = read_shown(certificate)
        if shown.not_after_ms <= now_ms:
            raise ValueError(f"the certificate of {shown.subject} has ended")
        name = self.loaded.mapping.name_of(shown.subject)
        return CertificateIdentity(Principal.user(name), shown.not_after_ms)

    # Renewal.

    def poll(self, now_ms: int) -> bool:
        """Look at the files and take over what has changed; returns whether something has.

        Failure is counted and told, and changes nothing.
        """
        loaded = self.loaded
        try:
            files = read_files(files_of(loaded.settings))
        except ConfigError as error:
            self.refuse(str(error))
            return False
        if files == loaded.files:
            # Also what was refused has gone: the old files are back.
            self.last_error, self._refused_files = "", {}
            return False
        if files == self._refused_files and not _is_about_time(self.last_error):
            return False
        try:
            renewed = self._load(loaded.settings, files, now_ms)
            self._check_names(loaded.material, renewed.material)
        except ConfigError as error:
            self._refused_files = files
            self.refuse(str(error))
            return False
        self._take(renewed)
        return True

    def prepare(self, settings: ListenerTlsSettings, now_ms: int) -> LoadedTls:
        """What other settings would come to, for `replace`; as AlterConfigs brings them.

        Raises: ConfigError, also for another distinguished name or fewer alternative names where
        that is not allowed, and for a store that is added or removed.
        """
        old = self.loaded
        if old.settings.has_anchors != settings.has_anchors:
            raise ConfigError("a trust store cannot be added or removed while the broker runs")
        renewed = self._load(settings, read_files(files_of(settings)), now_ms)
        if not settings.allows_dn_changes and renewed.material.subject != old.material.subject:
            raise ConfigError(
                f"the certificate is of {renewed.material.subject}, the present one of "
                f"{old.material.subject}: ssl.allow.dn.changes is false"
            )
        lacking = old.material.names - renewed.material.names
        if not settings.allows_san_changes and lacking:
            raise ConfigError(
                f"the certificate lacks the name {min(lacking)}: ssl.allow.san.changes is false"
            )
        return renewed

    def replace(self, renewed: LoadedTls) -> None:
        """Serve new connections with what `prepare` gave from now on."""
        self._take(renewed)

    def _take(self, renewed: LoadedTls) -> None:
        self.loaded = renewed
        self.reloads += 1
        self.last_error, self._refused_files = "", {}
        _log.info(
            "%s: serves the certificate of %s from now on, valid until %s",
            self.listener,
            renewed.material.subject,
            f"{renewed.material.own.not_valid_after_utc:%F %T} UTC",
        )

    def refuse(self, reason: str) -> None:
        """Count and tell that something cannot serve; what is in use stays."""
        self.failed_reloads += 1
        if reason != self.last_error:
            _log.warning("%s: keeps the certificate that it has: %s", self.listener, reason)
        self.last_error = reason

    def _load(
        self, settings: ListenerTlsSettings, files: Mapping[str, bytes], now_ms: int
    ) -> LoadedTls:
        material = read_material(settings, files)
        check_material(material, settings, now_ms, is_of_brokers=self._is_of_brokers)
        try:
            mapping = PrincipalMapping(settings.mapping_rules)
        except MappingError as error:
            raise ConfigError(f"{settings.listener}: {error}") from None
        return LoadedTls(
            settings=settings,
            files=dict(files),
            material=material,
            server=server_context(material, settings),
            client=client_context(material, settings) if self._is_of_brokers else None,
            mapping=mapping,
            handshakes_max=handshakes_at_once(material),
        )

    def _check_names(self, old: KeyMaterial, new: KeyMaterial) -> None:
        """A renewal may not lose the name by which clients come."""
        host = self._advertised_host
        if host and old.covers(host) and not new.covers(host):
            raise ConfigError(
                f"{self.listener}: the certificate lacks the advertised name {host}; it has "
                f"{', '.join(sorted(new.names)) or 'none'}"
            )

    def _warn_of(self, loaded: LoadedTls) -> None:
        host = self._advertised_host
        if host and not loaded.material.covers(host):
            _log.warning(
                "%s: clients that verify names will not accept the certificate at the advertised "
                "host %s; it has %s",
                self.listener,
                host,
                ", ".join(sorted(loaded.material.names)) or "no alternative name",
            )
        if isinstance(loaded.material.key, rsa.RSAPrivateKey):
            _log.warning(
                "%s: an RSA key signs many times slower than ECDSA P-256, and only %d handshakes "
                "are made at once with it",
                self.listener,
                loaded.handshakes_max,
            )


def _is_about_time(reason: str) -> bool:
    """Whether time alone may mend what was refused."""
    return " is not valid before " in reason


def read_files(paths: Iterable[str]) -> dict[str, bytes]:
    """The content of files, those of one volume all of the same version.

    Raises: ConfigError that names the file.
    """
    versions: dict[Path, Path] = {}
    content: dict[str, bytes] = {}
    for path in paths:
        folder = Path(path).parent
        if folder not in versions:
            link = folder / _DATA_LINK
            # Followed once: between two reads it may lead elsewhere.
            versions[folder] = link.resolve() if link.is_symlink() else folder
        place = versions[folder] / Path(path).name
        try:
            content[path] = _read(place if place.exists() else Path(path))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
        if len(content[path]) > FILE_BYTES_MAX:
            raise ConfigError(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return content


def _read(path: Path) -> bytes:
    """What a file has, up to one byte too many. Raises: OSError, also for what is no file.

    Settings name it, and reading a pipe would take its thread for as long as nobody writes.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no file")
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)

"""The TLS contexts of a client, from its settings; and what a failed TLS handshake means.

A context is made of files that their owners renew: a new connection gets a context of what is in
them now (`TlsContexts`), and connections that live keep theirs. A context in use is never changed:
authorities cannot be taken out of one (SEC-6).

Invariants: brokers' certificates are always verified, only the name in them may be left unchecked;
files that are half written or do not fit leave the context as it was; a key that is given as text
is in memory only; every error names the setting that is to be changed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.config.secret_files import warn_if_others_read
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ConfigurationError,
)

_log: Final = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
"""How often files that change while they are read are read anew; the next connection goes on."""
_PROBE_SECONDS: Final = 2.0
"""How long it is tried whether a port speaks TLS that has ended a plain connection."""
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# OpenSSL's reasons when the other side's first bytes are not TLS.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
_CLIENT_REFUSED: Final = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNKNOWN_CA",
)
# OpenSSL's codes: the names in a certificate are others; its time has not come or is over.
_WRONG_NAME: Final = (62, 64)
_WRONG_TIME: Final = (9, 10)

# What a file was when it was read: its place behind all links, its size and when it was written.
_State = tuple[tuple[str, int, int, int], ...]


class TlsContexts:
    """The context for the next connection; made anew when a file it was made of has changed."""

    def __init__(self, settings: ClientSettings) -> None:
        """Make the first one. Raises: ConfigurationError if a file cannot be read or used."""
        self._settings = settings
        self._files = [
            Path(path)
            for path in (settings.ssl_cafile, settings.ssl_certfile, settings.ssl_keyfile)
            if path is not None and settings.ssl_context is None
        ]
        self._refused: _State | None = None
        self._state = self._look()
        self._context = create_context(settings)
        if settings.ssl_keyfile is not None:
            warn_if_others_read(settings.ssl_keyfile, "ssl_keyfile")

    async def current(self) -> ssl.SSLContext | None:
        """The context of what the files hold now; the last good one if they do not fit."""
        if self._files and self._look() not in (self._state, self._refused):
            await asyncio.to_thread(self._renew)
        return self._context

    def _renew(self) -> None:
        for _ in range(_ATTEMPTS):
            state = self._look()
            problem: ConfigurationError | None = None
            try:
                context = create_context(self._settings)
            except ConfigurationError as error:
                problem = error
            if state == self._look():
                break
        else:
            return
        if problem is not None:
            self._refused = state
            _log.warning("the TLS context stays as it was: %s", problem)
            return
        self._state, self._context, self._refused = state, context, None

    def _look(self) -> _State:
        return tuple(_state_of(path) for path in self._files)


def _state_of(path: Path) -> tuple[str, int, int, int]:
    try:
        place = path.resolve()
        found = place.stat()
    except OSError:
        return str(path), -1, -1, -1
    return str(place), found.st_ino, found.st_size, found.st_mtime_ns


def create_context(settings: ClientSettings) -> ssl.SSLContext | None:
    """The context that the settings describe; None without TLS.

    Raises: ConfigurationError if a file cannot be read or used.
    """
    if not settings.uses_tls:
        return None
    if settings.ssl_context is not None:
        return settings.ssl_context
    name = "ssl_ca_pem" if settings.ssl_ca_pem is not None else "ssl_cafile"
    try:
        context = ssl.create_default_context(
            cafile=settings.ssl_cafile, cadata=settings.ssl_ca_pem or None
        )
    except (OSError, ssl.SSLError) as error:
        shown = f"={settings.ssl_cafile!r}" if name == "ssl_cafile" else ""
        raise ConfigurationError(f"{name}{shown} cannot be used: {_reason(error)}") from error
    if settings.ssl_cafile is not None or settings.ssl_ca_pem is not None:
        # Each certificate that is named is trusted, those of intermediates too (SEC-2).
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = settings.ssl_check_hostname
    versions = [_VERSIONS[one] for one in settings.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if settings.ssl_certfile is not None or settings.ssl_certificate_pem is not None:
        _load_own_certificate(context, settings)
    return context


def _load_own_certificate(context: ssl.SSLContext, settings: ClientSettings) -> None:
    def password() -> str:
        # Without this OpenSSL would prompt on the terminal.
        return settings.ssl_password or ""

    try:
        if settings.ssl_certificate_pem is not None:
            text = settings.ssl_certificate_pem + "\n" + (settings.ssl_key_pem or "")
            with _in_memory(text) as path:
                context.load_cert_chain(path, None, password)
        else:
            assert settings.ssl_certfile is not None
            context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, password)
    except (OSError, ssl.SSLError) as error:
        files = "ssl_certificate_pem with ssl_key_pem"
        if settings.ssl_certfile is not None:
            files = f"ssl_certfile={settings.ssl_certfile!r}"
        if settings.ssl_keyfile is not None:
            files += f" with ssl_keyfile={settings.ssl_keyfile!r}"
        hint = ""
        if settings.ssl_password is None:
            hint = "; if the key is encrypted, give ssl_password"
        raise ConfigurationError(f"{files} cannot be used: {_reason(error)}{hint}") from error


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A path to the text that is on no disk: Python takes keys from paths only (SEC-2)."""
    if not hasattr(os, "memfd_create"):
        raise ConfigurationError(
            "ssl_key_pem cannot be used on this system without writing it to a disk: give "
            "ssl_certfile and ssl_keyfile"
        )
    descriptor = os.memfd_create("barnabas-tls")
    try:
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as written:
            written.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM form").replace("_", " ").lower()
    return error.strerror or str(error)


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS handshake gets through, with whomever: nothing is sent in it.

    Brokers differ in what a client sees that has sent them plain requests: some end the connection
    without a word.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def plain_at_tls_error(peer: str, security_protocol: str) -> ConfigurationError:
    """What a client without TLS is told at a port with it."""
    encrypted = security_protocol.replace("PLAINTEXT", "SSL")
    if not encrypted.startswith("SASL"):
        encrypted = "SSL or SASL_SSL"
    return ConfigurationError(
        f"{peer} speaks TLS, but security_protocol={security_protocol}: set {encrypted}, or use "
        "the broker's port without TLS"
    )


def handshake_error(peer: str, error: Exception, security_protocol: str) -> BarnabasError:
    """What a failure during or right after the TLS handshake means for the caller."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "name the authority that signed it in ssl_cafile"
        if error.verify_code in _WRONG_TIME:
            hint = "have the broker's certificate renewed, or set the clock of this machine"
        elif error.verify_code in _WRONG_NAME:
            hint = "connect by a name that is in it, or set ssl_check_hostname=False"
        return AuthenticationError(
            f"the certificate of {peer} is not accepted: {error.verify_message.rstrip('.')}; {hint}"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in _NOT_TLS:
            plain = "SASL_PLAINTEXT" if security_protocol == "SASL_SSL" else "PLAINTEXT"
            return ConfigurationError(
                f"{peer} does not speak TLS, but security_protocol={security_protocol}: use the "
                f"broker's TLS port, or set {plain} if nobody can listen on the way"
            )
        if any(part in reason for part in _CLIENT_REFUSED):
            return AuthenticationError(
                f"{peer} does not accept this client's certificate ({_reason(error)}): "
                "give one that an authority of the broker's has signed, as ssl_certfile and "
                "ssl_keyfile"
            )
        return AuthenticationError(f"no TLS with {peer}: {_reason(error)}")
    return BrokerUnreachableError(
        f"{peer} closed the connection during the TLS handshake: is its port a TLS port, as "
        f"security_protocol={security_protocol} demands?"
    )

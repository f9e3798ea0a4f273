"""The TLS context of a client, from its settings; and what a failed TLS handshake means.

Invariants: brokers' certificates are always verified, only the name in them may be left unchecked;
every error names the setting that is to be changed.
"""

from __future__ import annotations

import ssl
from typing import Final

from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ConfigurationError,
)

# OpenSSL's reasons when the other side's first bytes are not TLS.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL")
_CLIENT_REFUSED: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN")


def create_context(settings: ClientSettings) -> ssl.SSLContext | None:
    """The context that the settings describe; None without TLS.

    Raises: ConfigurationError if a file cannot be read or used.
    """
    if not settings.uses_tls:
        return None
    if settings.ssl_context is not None:
        return settings.ssl_context
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"ssl_cafile={settings.ssl_cafile!r} cannot be used: {_reason(error)}"
        ) from error
    context.check_hostname = settings.ssl_check_hostname
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.ssl_certfile is not None:
        _load_own_certificate(context, settings)
    return context


def _load_own_certificate(context: ssl.SSLContext, settings: ClientSettings) -> None:
    assert settings.ssl_certfile is not None

    def password() -> str:
        # Without this OpenSSL would prompt on the terminal.
        return settings.ssl_password or ""

    try:
        context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, password)
    except (OSError, ssl.SSLError) as error:
        files = f"ssl_certfile={settings.ssl_certfile!r}"
        if settings.ssl_keyfile is not None:
            files += f" with ssl_keyfile={settings.ssl_keyfile!r}"
        hint = ""
        if settings.ssl_password is None:
            hint = "; if the key is encrypted, give ssl_password"
        raise ConfigurationError(f"{files} cannot be used: {_reason(error)}{hint}") from error


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM form").replace("_", " ").lower()
    return error.strerror or str(error)


def handshake_error(peer: str, error: Exception, security_protocol: str) -> BarnabasError:
    """What a failure during or right after the TLS handshake means for the caller."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "name the authority that signed it in ssl_cafile"
        if error.verify_code in (62, 64):  # the names in it are others than the one connected to
            hint = "connect by a name that is in it, or set ssl_check_hostname=False"
        return AuthenticationError(
            f"the certificate of {peer} is not accepted: {error.verify_message.rstrip('.')}; {hint}"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason in _NOT_TLS:
            plain = "SASL_PLAINTEXT" if security_protocol == "SASL_SSL" else "PLAINTEXT"
            return ConfigurationError(
                f"{peer} does not speak TLS, but security_protocol={security_protocol}: set "
                f"{plain}, or use the broker's TLS port"
            )
        if any(part in reason for part in _CLIENT_REFUSED):
            return AuthenticationError(
                f"{peer} does not accept this client's certificate ({_reason(error)}): check "
                "ssl_certfile and ssl_keyfile"
            )
        return AuthenticationError(f"no TLS with {peer}: {_reason(error)}")
    return BrokerUnreachableError(
        f"{peer} closed the connection during the TLS handshake: is its port a TLS port, as "
        f"security_protocol={security_protocol} demands?"
    )

"""TLS contexts from settings, and what failures mean."""

import ssl
from pathlib import Path

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.errors import (
    AuthenticationError,
    BarnabasError,
    BrokerUnreachableError,
    ConfigurationError,
)
from barnabas_client.network.tls import create_context, handshake_error


def settings(**values: object) -> ClientSettings:
    return ClientSettings.create({"bootstrap_servers": "a:1", "security_protocol": "SSL", **values})


def test_certificates_are_verified_by_default() -> None:
    """Encryption without knowing with whom protects nobody."""
    context = create_context(settings())
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    loose = create_context(settings(ssl_check_hostname=False))
    assert loose is not None
    assert loose.verify_mode is ssl.CERT_REQUIRED
    assert not loose.check_hostname


def test_without_tls_there_is_no_context_and_a_given_one_is_used() -> None:
    """`ssl_context` is for whatever the settings cannot say."""
    assert create_context(settings(security_protocol="PLAINTEXT")) is None
    own = ssl.create_default_context()
    assert create_context(settings(ssl_context=own)) is own


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """The setting, the file and the reason."""
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigurationError, match=r"ssl_cafile=.*none\.pem.*No such file"):
        create_context(settings(ssl_cafile=missing))
    with pytest.raises(ConfigurationError, match=r"ssl_certfile=.*none\.pem"):
        create_context(settings(ssl_certfile=missing))
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(ConfigurationError, match="ssl_cafile"):
        create_context(settings(ssl_cafile=str(empty)))


def failure(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (failure("WRONG_VERSION_NUMBER"), ConfigurationError, "does not speak TLS"),
        (failure("TLSV13_ALERT_CERTIFICATE_REQUIRED"), AuthenticationError, "ssl_certfile"),
        (failure("NO_SHARED_CIPHER"), AuthenticationError, "no shared cipher"),
        (ConnectionResetError(), BrokerUnreachableError, "security_protocol=SASL_SSL"),
    ],
)
def test_a_failed_handshake_says_what_to_change(
    error: Exception, kind: type[BarnabasError], words: str
) -> None:
    """One line with the setting's name."""
    meaning = handshake_error("broker 1 at a:1", error, "SASL_SSL")
    assert isinstance(meaning, kind)
    assert words in str(meaning)
    assert "broker 1 at a:1" in str(meaning)

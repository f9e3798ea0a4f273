"""TLS contexts from settings, and what failures mean."""

import asyncio
import logging
import os
import shutil
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
from barnabas_client.network.tls import TlsContexts, create_context, handshake_error
from tests.support.tls_files import TlsFiles


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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl makes the certificates of this test; it is missing")
    return TlsFiles(tmp_path_factory.mktemp("tls")).create()


def next_context(contexts: TlsContexts) -> ssl.SSLContext:
    context = asyncio.run(contexts.current())
    assert context is not None
    return context


def anchors(context: ssl.SSLContext) -> list[str]:
    return [str(one["subject"]) for one in context.get_ca_certs()]


def test_a_new_connection_gets_a_context_of_what_the_files_hold_now(
    files: TlsFiles, tmp_path: Path
) -> None:
    """SEC-100, SEC-6: a new context, so that the authority of before is gone from it."""
    path = tmp_path / "ca.crt"
    shutil.copy(files.authority, path)
    contexts = TlsContexts(settings(ssl_cafile=str(path)))
    first = next_context(contexts)
    assert next_context(contexts) is first
    replacement = tmp_path / "new"
    shutil.copy(files.other_authority, replacement)
    replacement.replace(path)
    second = next_context(contexts)
    assert second is not first
    assert "Another Authority" in anchors(second)[0]
    assert "Test Authority" in anchors(first)[0]


def test_files_that_do_not_fit_leave_the_context(
    files: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-5: a certificate whose key has not come yet; told once, and taken when it has."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(files.client_certificate, certificate)
    shutil.copy(files.client_key, key)
    contexts = TlsContexts(settings(ssl_certfile=str(certificate), ssl_keyfile=str(key)))
    first = next_context(contexts)
    shutil.copy(files.broker_certificate, certificate)
    with caplog.at_level(logging.WARNING, "barnabas_client.network.tls"):
        assert next_context(contexts) is first
        assert next_context(contexts) is first
    assert len(caplog.records) == 1
    assert "ssl_certfile" in caplog.text
    shutil.copy(files.broker_key, key)
    assert next_context(contexts) is not first


def test_a_volume_of_kubernetes_is_followed_through_its_link(
    files: TlsFiles, tmp_path: Path
) -> None:
    """SEC-5: the kubelet replaces the link `..data`, never a file."""
    for name, source in (("one", files.authority), ("two", files.other_authority)):
        (tmp_path / name).mkdir()
        shutil.copy(source, tmp_path / name / "ca.crt")
        os.utime(tmp_path / name / "ca.crt", (1, 1))
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "ca.crt").symlink_to("..data/ca.crt")
    contexts = TlsContexts(settings(ssl_cafile=str(tmp_path / "ca.crt")))
    (tmp_path / "..next").symlink_to("two")
    (tmp_path / "..next").replace(tmp_path / "..data")
    assert "Another Authority" in anchors(next_context(contexts))[0]


def test_keys_as_text_are_loaded_and_never_written(
    files: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-2: inline stores of Java; Python takes keys from paths only."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    context = create_context(
        settings(
            ssl_ca_pem=files.authority.read_text(),
            ssl_certificate_pem=files.client_certificate.read_text(),
            ssl_key_pem=files.client_key.read_text(),
        )
    )
    assert context is not None
    assert "Test Authority" in anchors(context)[0]
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match="ssl_certificate_pem") as raised:
        create_context(
            settings(
                ssl_certificate_pem=files.client_certificate.read_text(),
                ssl_key_pem=files.broker_key.read_text(),
            )
        )
    assert "PRIVATE" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="ssl_ca_pem cannot be used"):
        create_context(settings(ssl_ca_pem="nonsense"))


def test_the_versions_of_tls_can_be_narrowed() -> None:
    """Java's `ssl.enabled.protocols`."""
    context = create_context(settings(**{"ssl.enabled.protocols": "TLSv1.3"}))
    assert context is not None
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3

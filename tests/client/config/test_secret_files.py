"""Files with secrets that everybody can read are told of, as ssh does."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas_client.config import ClientSettings
from barnabas_client.config.properties_file import settings_from_file
from barnabas_client.config.secret_files import warn_if_others_read
from barnabas_client.errors import ConfigurationError
from barnabas_client.network.login import login_of
from barnabas_client.network.tls import TlsContexts
from tests.support.certificates import Authority


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [one.getMessage() for one in caplog.records if "everybody" in one.getMessage()]
    caplog.clear()
    return found


def test_one_warning_a_file_and_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-114: a group may read it, others may not; a file that is not there is not our affair."""
    path = tmp_path / "secret"
    warn_if_others_read(path, "a_setting")
    path.write_text("x")
    path.chmod(0o640)
    warn_if_others_read(path, "a_setting")
    assert warnings(caplog) == []
    path.chmod(0o644)
    for _ in range(3):
        warn_if_others_read(path, "a_setting")
    (line,) = warnings(caplog)
    assert line.startswith(f"a_setting: everybody on this machine can read {path}")
    assert "(mode 0644)" in line


def test_a_volume_of_kubernetes_is_as_its_pod_wants_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-85, SEC-114: a mounted Secret has mode 0644 by default, behind the kubelet's links."""
    folder = tmp_path / "..2026_11_27"
    folder.mkdir()
    (folder / "client.properties").write_text("x")
    (folder / "client.properties").chmod(0o644)
    (tmp_path / "..data").symlink_to(folder.name)
    (tmp_path / "client.properties").symlink_to("..data/client.properties")
    warn_if_others_read(tmp_path / "client.properties", "the properties")
    assert warnings(caplog) == []


def test_a_properties_file_matters_where_it_has_a_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-114."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=localhost:9092\n")
    path.chmod(0o644)
    settings_from_file(path)
    assert warnings(caplog) == []
    for line in ("sasl.password=x", "sasl.jaas.config=a required;", "ssl.keystore.key=x"):
        other = tmp_path / f"{line[:8]}{len(line)}"
        other.write_text(f"{line}\n")
        other.chmod(0o644)
        with caplog.at_level("WARNING"), suppress(ConfigurationError):
            settings_from_file(other)
        assert len(warnings(caplog)) == 1, line


def test_a_key_and_a_token_matter_always(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-114: and certificates never."""
    authority = Authority()
    certificate, key = authority.issue("client").write(tmp_path)
    anchors, token = tmp_path / "ca.crt", tmp_path / "token"
    anchors.write_bytes(authority.pem)
    token.write_text("a.b.c")
    for path in (certificate, anchors, key, token):
        path.chmod(0o644)
    shared = {"bootstrap_servers": "localhost:9092", "ssl_cafile": str(anchors)}
    TlsContexts(
        ClientSettings.create(
            {
                **shared,
                "security_protocol": "SSL",
                "ssl_certfile": str(certificate),
                "ssl_keyfile": str(key),
            }
        )
    )
    (line,) = warnings(caplog)
    assert line.startswith("ssl_keyfile: ")
    login = login_of(
        ClientSettings.create(
            {
                **shared,
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_file": str(token),
            }
        )
    )
    assert login is not None
    asyncio.run(login.prepare())
    (line,) = warnings(caplog)
    assert line.startswith("sasl_oauthbearer_token_file: ")

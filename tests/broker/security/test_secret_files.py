"""Files of a broker with secrets that everybody can read are told of, as ssh does."""

from pathlib import Path

import pytest

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.security.secret_files import warn_of_readable_secrets


def test_files_with_secrets_that_others_may_read_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-114: keys, passwords and tokens; never certificates, nor what a group alone may read."""
    files = {
        "barnabas.ssl.certificate.file": 0o644,
        "barnabas.ssl.key.file": 0o644,
        "barnabas.bootstrap.users.file": 0o604,
        "admin.http.token.file": 0o640,
    }
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
    }
    for setting, mode in files.items():
        path = tmp_path / setting
        path.write_text("x")
        path.chmod(mode)
        properties[setting] = str(path)
    config = BrokerConfig.parse(properties)
    warn_of_readable_secrets(config)
    told = [record.getMessage() for record in caplog.records]
    assert [line.partition(":")[0] for line in told] == [
        "barnabas.ssl.key.file",
        "barnabas.bootstrap.users.file",
    ]
    assert "mode 0604" in told[1]
    caplog.clear()
    (tmp_path / "barnabas.ssl.key.file").unlink()
    (tmp_path / "barnabas.bootstrap.users.file").chmod(0o600)
    warn_of_readable_secrets(config)
    assert caplog.records == []


def test_a_secret_that_kubernetes_mounts_is_as_its_pod_wants_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-114: its mode is 0644 by default, behind the kubelet's links."""
    folder = tmp_path / "..2026_11_27"
    folder.mkdir()
    (folder / "token").write_text("x")
    (folder / "token").chmod(0o644)
    (tmp_path / "..data").symlink_to(folder.name)
    (tmp_path / "token").symlink_to("..data/token")
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
        "admin.http.token.file": str(tmp_path / "token"),
    }
    warn_of_readable_secrets(BrokerConfig.parse(properties))
    assert caplog.records == []


@pytest.mark.parametrize("has_key_file", [True, False])
def test_what_a_broker_shows_to_its_arbiter_is_secret_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_key_file: bool
) -> None:
    """SEC-114: without a file of its own, the key for etcd is in that of its certificate."""
    settings = ["arbiter.etcd.client.certificate.file", "arbiter.kubernetes.token.file"]
    if has_key_file:
        settings.append("arbiter.etcd.client.key.file")
    properties = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,REPLICATION://127.0.0.1:0",
        "log.dirs": str(tmp_path / "data"),
    }
    for setting in settings:
        path = tmp_path / setting
        path.write_text("x")
        path.chmod(0o644)
        properties[setting] = str(path)
    warn_of_readable_secrets(BrokerConfig.parse(properties))
    told = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert told == [settings[-1] if has_key_file else settings[0], settings[1]]

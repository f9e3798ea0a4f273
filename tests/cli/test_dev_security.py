"""The files of `barnabas dev --secure`: a contract, and what is kept over starts."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from barnabas_cli.connection import connect
from barnabas_cli.dev_security import DevSecurity
from barnabas_protocol.settings.properties import parse_properties
from tests.support.command_line import CommandLine

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def security(data: Path, port: int = 9092, count: int = 1) -> DevSecurity:
    servers = ",".join(f"127.0.0.1:{port + number}" for number in range(count))
    return DevSecurity(data=data, count=count, bootstrap=servers)


def write(secured: DevSecurity, now: datetime) -> None:
    """What a start writes: before the brokers, and once their ports are known."""
    secured.write_broker_files(now)
    secured.write_client_files()


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_the_layout_is_a_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 20: three files in `secure`, absolute paths, nobody else's to read."""
    monkeypatch.chdir(tmp_path)
    write(security(Path("data")), NOW)
    folder = tmp_path / "data" / "secure"
    for name in ("ca.crt", "client.properties", "librdkafka.conf"):
        assert (folder / name).is_file()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    java = parse_properties((folder / "client.properties").read_text())
    other = parse_properties((folder / "librdkafka.conf").read_text())
    assert java["security.protocol"] == "SASL_SSL"
    assert java["sasl.mechanism"] == other["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert java["ssl.truststore.location"] == other["ssl.ca.location"] == str(folder / "ca.crt")
    assert other["sasl.password"] in java["sasl.jaas.config"]
    assert len(other["sasl.password"]) >= 32
    connection = connect(None, str(folder / "client.properties"), 1000)
    assert connection.bootstrap_servers == "127.0.0.1:9092"
    assert connection.settings["sasl_password"] == other["sasl.password"]


def test_a_start_keeps_what_is_there(tmp_path: Path) -> None:
    """Issue 20; and what need not change is not written."""
    write(security(tmp_path), NOW)
    folder = tmp_path / "secure"
    before = contents(folder)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    write(security(tmp_path), NOW + timedelta(days=1))
    assert contents(folder) == before
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_another_port_changes_addresses_and_nothing_else(tmp_path: Path) -> None:
    write(security(tmp_path), NOW)
    before = contents(tmp_path / "secure")
    write(security(tmp_path, port=19092), NOW)
    after = contents(tmp_path / "secure")
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"client.properties", "librdkafka.conf"}
    assert after["librdkafka.conf"] == before["librdkafka.conf"].replace("9092", "19092")


def test_a_certificate_that_is_about_to_end_is_renewed_by_the_same_authority(
    tmp_path: Path,
) -> None:
    """Clients go on with the ca.crt that they have."""
    write(security(tmp_path), NOW)
    before = contents(tmp_path / "secure")
    write(security(tmp_path), NOW + timedelta(days=300))
    after = contents(tmp_path / "secure")
    assert {name for name in after if after[name] != before[name]} == {"broker-0.pem"}
    verified = subprocess.run(
        [
            *("openssl", "verify", "-attime", str(int((NOW + timedelta(days=301)).timestamp()))),
            *("-CAfile", str(tmp_path / "secure" / "ca.crt")),
            str(tmp_path / "secure" / "broker-0.pem"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr


def test_each_broker_has_a_certificate_that_names_it(tmp_path: Path) -> None:
    """SEC-60: by it the others know which one it is; SEC-7: addresses are in it, too."""
    secured = security(tmp_path, count=3)
    write(secured, NOW)
    for number in range(3):
        text = (tmp_path / "secure" / f"broker-{number}.pem").read_bytes()
        certificate = x509.load_pem_x509_certificates(text)[0]
        assert certificate.subject.rfc4514_string() == f"CN=broker-{number}"
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost"]
        assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == [
            "127.0.0.1",
            "::1",
        ]
        settings = secured.settings(number)
        assert settings["ssl.keystore.location"].endswith(f"broker-{number}.pem")


def test_secure_data_is_not_served_in_the_open(tmp_path: Path) -> None:
    """Rights that somebody has given would not be asked for any more."""
    write(security(tmp_path), NOW)
    assert "start it with --secure" in CommandLine().error("dev", "--data", str(tmp_path), code=2)


def test_files_that_do_not_belong_together_are_told(tmp_path: Path) -> None:
    """One line, no key in it."""
    write(security(tmp_path / "one"), NOW)
    write(security(tmp_path / "two"), NOW)
    (tmp_path / "two" / "secure" / "ca.key").replace(tmp_path / "one" / "secure" / "ca.key")
    told = CommandLine().error("dev", "--secure", "--data", str(tmp_path / "one"))
    assert "secure cannot be used: the key is not that of the certificate" in told

"""Profiles: named connections in a file that only its owner may read (SEC-102)."""

from pathlib import Path

import pytest

from barnabas_cli.connection import connect
from barnabas_cli.failures import CommandError
from barnabas_cli.profiles import config_path, find_profile, profile_names
from tests.support.command_line import CommandLine

FILE = """
default-profile = "laptop"

[profiles.laptop]
command-config = "secure/client.properties"

[profiles.production]
bootstrap.servers = ["one:9093", "two:9093"]
security.protocol = "SASL_SSL"
sasl.mechanism = "SCRAM-SHA-512"
sasl.username = "alice"
sasl.password = "canary"
ssl.ca.location = "ca.crt"
ssl.check.hostname = false
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BOOTSTRAP_SERVERS", "COMMAND_CONFIG", "PROFILE"):
        monkeypatch.delenv(f"BARNABAS_{name}", raising=False)
    return write(FILE)


def write(text: str, mode: int = 0o600) -> Path:
    path = config_path()
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_profile_is_a_connection(config: Path) -> None:
    """Names of Java and librdkafka; places of files are relative to the file."""
    connection = connect(None, None, 1000, profile="production")
    assert connection.bootstrap_servers == "one:9093,two:9093"
    assert connection.settings == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "canary",
        "ssl_cafile": str(config.parent / "ca.crt"),
        "ssl_check_hostname": "false",
    }
    assert connect("x:1", None, 1000, profile="production").bootstrap_servers == "x:1"


def test_the_default_profile_holds_where_nothing_else_is_named(config: Path) -> None:
    """No password goes to brokers that it is not for."""
    properties = config.parent / "secure" / "client.properties"
    properties.parent.mkdir()
    properties.write_text("bootstrap.servers=near:9092\nsasl.username=bob\nsasl.password=x\n")
    assert connect(None, None, 1000).bootstrap_servers == "near:9092"
    assert connect(None, None, 1000).settings["sasl_username"] == "bob"
    assert connect("other:9092", None, 1000).settings == {}


def test_the_environment_names_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_PROFILE", "production")
    assert connect(None, None, 1000).settings["sasl_username"] == "alice"


def test_without_a_file_all_is_as_it_was(config: Path) -> None:
    config.unlink()
    assert connect(None, None, 1000).settings == {}
    assert find_profile(None) is None
    with pytest.raises(CommandError, match=r"there is no profile 'x': .* does not exist"):
        find_profile("x")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_use_is_refused(mode: int) -> None:
    """SEC-102: it holds passwords."""
    write(FILE, mode)
    with pytest.raises(CommandError, match="run 'chmod 600 "):
        find_profile("production")
    assert profile_names() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FILE, "has no profile 'producton'. Did you mean 'production'"),
        ("profiles = 1", "must be tables"),
        ("[profiles.producton]\na = [1]", "a must be text"),
        ("[profiles.producton", "is no TOML"),
    ],
)
def test_what_is_wrong_is_told(text: str, words: str) -> None:
    write(text)
    with pytest.raises(CommandError, match=words) as raised:
        find_profile("producton")
    assert "canary" not in str(raised.value)


def test_a_profile_and_a_properties_file_are_not_mixed(config: Path) -> None:
    cli = CommandLine()
    both = ("topic", "list", "--profile", "production", "--command-config", str(config))
    assert "not both" in cli.error(*both, code=2)

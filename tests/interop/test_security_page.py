"""The recipes of docs/security.md are run as they stand, in order, in an empty folder.

A fence with a file's name is that file; ```sh is run as a whole; in ```console each line behind
`$ ` is run and prints what follows. What the page says is not run is only checked for what it is.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import yaml

from barnabas_client import settings_from_file
from barnabas_client.config import AdminSettings
from barnabas_operator.crd import problems
from barnabas_pipelines.jobs.job import load_job
from barnabas_pipelines.jobs.settings import settings_of
from tests.cli.documented_sessions import ROOT, commands, matches, run_in_shell
from tests.support.apache_kafka import kafka_jars
from tests.support.command_line import CommandLine
from tests.support.secure_dev import SecureDev, SecureDevKafka
from tests.support.secured_barnabas import SecuredBarnabas

PAGE = ROOT / "docs" / "security.md"
ADDRESS = "127.0.0.1:9092"
HIDDEN = "  but the super users are not shown: one may do everything\n"
"""Kafka does not show settings of authorizers."""
START = "barnabas dev --secure"
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(bootstrap: str) -> Iterator[tuple[str, str, str]]:
    """Kind, name and text of each, for brokers at this address."""
    for fence in _FENCE.finditer(PAGE.read_text(encoding="utf-8").replace(ADDRESS, bootstrap)):
        yield fence[1], fence[2].strip(), fence[3]


@pytest.fixture(params=["barnabas", "apache"])
def secure(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecureDev | SecureDevKafka]:
    kind = SecureDev if request.param == "barnabas" else SecureDevKafka
    running = kind(tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def newer_librdkafka(directory: Path) -> Path:
    """A folder with the librdkafka of confluent-kafka for kcat: distributions have older ones."""
    site = Path(confluent_kafka.__file__).parents[1]
    (library,) = (site / "confluent_kafka.libs").glob("librdkafka-*.so.1")
    folder = directory / "lib"
    folder.mkdir()
    (folder / "librdkafka.so.1").symlink_to(library)
    return folder


@pytest.mark.interop
def test_the_recipes_work_in_their_order(
    secure: SecureDev | SecureDevKafka, tmp_path: Path
) -> None:
    """Issue 20: on Barnabas, and with the same files on Apache Kafka."""
    environment = {
        "LD_LIBRARY_PATH": str(newer_librdkafka(tmp_path)),
        "COLUMNS": "200",
        "KAFKA_JARS": str(kafka_jars()),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    run_count = 0
    for kind, name, text in fences(secure.bootstrap):
        if name:
            (tmp_path / name).write_text(text, encoding="utf-8")
        elif kind == "sh":
            assert run_in_shell(text, environment, tmp_path) == ""
        elif kind == "console":
            for command, expected in commands(text):
                if command == START:
                    continue
                printed = run_in_shell(command, environment, tmp_path).replace(HIDDEN, "")
                assert matches(expected, printed), f"$ {command}\n{printed}"
                run_count += 1
    assert run_count >= 20


@pytest.mark.interop
def test_tokens_in_a_file_log_java_and_librdkafka_in(tmp_path: Path) -> None:
    """SEC-101: the two recipes for pods, with the paths of this machine."""
    secured = SecuredBarnabas(tmp_path / "secured")
    ca = secured.security.folder / "ca.crt"
    secured.bearer(secured.tokens.token("pod"))
    places = {
        "broker-1.example:9093": secured.broker.bootstrap,
        "/etc/barnabas/user/ca.crt": str(ca),
        "/var/run/secrets/barnabas/token": str(secured.token_path),
    }
    java, native = (written(tmp_path, name) for name in ("token.properties", "native_token.py"))
    for path in (java, native):
        text = path.read_text()
        for here, there in places.items():
            assert here in text
            text = text.replace(here, there)
        path.write_text(text)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:{secured.token_path}"
    tool = f'java {allowed} -cp "{kafka_jars()}/*" org.apache.kafka.tools.TopicCommand'
    with secured.broker:
        admin = CommandLine()
        admin.run("topic", "create", "seen", *secured.admin())
        right = ("User:pod", "describe", "--resource", "topic", "--name", "seen")
        admin.run("acl", "create", *right, *secured.admin())
        connection = f"--bootstrap-server {secured.broker.bootstrap} --command-config {java}"
        listed = run_in_shell(f"{tool} {connection} --list 2> /dev/null", {}, tmp_path)
        assert listed.split() == ["seen"], listed
        printed = run_in_shell(f"python {native} 2> /dev/null", {}, tmp_path)
        assert printed == "['seen']\n"


def written(directory: Path, name: str) -> Path:
    path = directory / name
    path.write_text(next(text for _, one, text in fences(ADDRESS) if one == name))
    return path


@pytest.mark.parametrize("name", ["user.properties", "user.conf", "token.properties"])
def test_properties_that_are_not_run_are_taken_by_the_client(tmp_path: Path, name: str) -> None:
    """SEC-100: Java's and librdkafka's, for certificates and tokens."""
    found = {"bootstrap_servers": "a:1", **settings_from_file(written(tmp_path, name))}
    settings = AdminSettings.create(found)
    assert settings.uses_tls
    assert settings.ssl_certfile or settings.sasl_oauthbearer_token_file


def test_manifests_are_what_the_operator_takes(tmp_path: Path) -> None:
    """SEC-84."""
    assert problems(yaml.safe_load(written(tmp_path, "user.yaml").read_text())) == []


def test_a_job_takes_its_file(tmp_path: Path) -> None:
    """SEC-103."""
    given = yaml.safe_load(written(tmp_path, "archive.yaml").read_text())
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=a:1\nsecurity.protocol=SSL\n")
    job = load_job("archive")
    settings = settings_of(job.options, {**given, "client-properties": str(properties)})
    assert settings["bootstrap-servers"] == "a:1"
    assert settings["source-option"]["kafka.security.protocol"] == "SSL"

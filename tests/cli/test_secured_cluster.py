"""Rights, users and log-ins from the command line, on an Apache Kafka that has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.admin.secured_kafka import PASSWORD, USERNAME, SecuredKafka
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    with kafka.broker:
        yield kafka


@pytest.fixture
def cli(secured: SecuredKafka) -> CommandLine:
    """Somebody who may do everything."""
    return CommandLine(secured.bootstrap)


def login(directory: Path, module: str, user: str, password: str, mechanism: str) -> str:
    """A properties file as Kafka's tools take it."""
    path = directory / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required \\\n"
        f'  username="{user}" password="{password}";\n'
    )
    return str(path)


def test_plain_and_scram_log_in_by_a_file_of_kafka_s_tools(
    secured: SecuredKafka, cli: CommandLine, tmp_path: Path
) -> None:
    """Issue 4: --command-config with PLAIN and SCRAM; a wrong password is one line."""

    def users() -> list[object]:
        """A broker shows changes a moment later."""
        listed: list[object] = cli.json("user", "list")
        return listed

    address = ["-b", secured.sasl_bootstrap, "--command-config"]
    root = login(tmp_path, "plain.PlainLoginModule", USERNAME, PASSWORD, "PLAIN")
    cli.run("topic", "create", "audited", "-p", "1", *address, root)
    cli.run("user", "set", "carol", "--password", "pw-1")
    made = {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    wait_until(lambda: made in users(), DEADLINE_SECONDS, lambda: str(users()))
    carol = login(tmp_path, "scram.ScramLoginModule", "carol", "pw-1", "SCRAM-SHA-512")
    cli.run(
        "acl", "create", "carol", "describe", "read", "--resource", "topic", "--name", "audited"
    )

    def sees_the_topic() -> bool:
        rows = cli.json("topic", "list", *address, carol)
        return [row["topic"] for row in rows] == ["audited"]

    wait_until(sees_the_topic, DEADLINE_SECONDS, lambda: "carol does not see the topic")
    refused = cli.error("topic", "delete", "audited", "--yes", *address, carol)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused
    wrong = login(tmp_path, "scram.ScramLoginModule", "carol", "nonsense", "SCRAM-SHA-512")
    assert "--command-config" in cli.error("topic", "list", *address, wrong)
    cli.run("user", "delete", "carol", "--yes")
    wait_until(lambda: made not in users(), DEADLINE_SECONDS, lambda: str(users()))


def test_rights_are_listed_made_and_deleted(cli: CommandLine) -> None:
    made = cli.run(
        *["acl", "create", "User:dave", "read", "--resource", "group", "--name", "team-"],
        *["--prefixed", "--deny", "--host", "10.0.0.1"],
    )
    assert made.stdout == "deny User:dave read on group team- (prefixed) from 10.0.0.1\n"

    def rows() -> list[object]:
        listed: list[object] = cli.json("acl", "list", "--principal", "dave")
        return listed

    wait_until(lambda: len(rows()) == 1, DEADLINE_SECONDS, lambda: str(rows()))
    assert rows() == [
        {
            "principal": "User:dave",
            "permission": "deny",
            "operation": "read",
            "resource_type": "group",
            "resource_name": "team-",
            "pattern": "prefixed",
            "host": "10.0.0.1",
        }
    ]
    assert "Use --yes" in cli.error("acl", "delete", "--principal", "dave", code=2)
    cli.run("acl", "delete", "--principal", "dave", "--yes")
    wait_until(lambda: not rows(), DEADLINE_SECONDS, lambda: str(rows()))
    assert "Select ACLs" in cli.error("acl", "delete", "--yes", code=2)
    assert "Name the resource with --name" in cli.error(
        "acl", "create", "dave", "read", "--resource", "topic", code=2
    )

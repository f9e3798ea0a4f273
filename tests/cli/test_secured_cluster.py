"""Rights, users and log-ins from the command line, on an Apache Kafka that has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas_cli.connection import Connection
from barnabas_cli.main import main
from barnabas_cli.scram_salt import SaltAndIterations, salt_of
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
    cli.run("user", "create", "carol", "--password-file", "-", text="pw-1\n")
    made = {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    wait_until(lambda: made in users(), DEADLINE_SECONDS, lambda: str(users()))
    assert "user rotate carol" in cli.error("user", "create", "carol", "--password-file", root)
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


def test_a_password_is_rotated_with_the_salt_of_before(
    secured: SecuredKafka, cli: CommandLine, tmp_path: Path
) -> None:
    """SEC-27, SEC-102: the salt is what a broker tells everybody who begins to log in."""
    address = ["-b", secured.sasl_bootstrap, "--command-config"]
    root = login(tmp_path, "plain.PlainLoginModule", USERNAME, PASSWORD, "PLAIN")
    made = cli.run("user", "create", "erin", "--generate", "--iterations", "5000")
    first = made.stdout.strip()
    assert first and first not in made.stderr

    def salt() -> SaltAndIterations | None:
        settings = {"security_protocol": "SASL_PLAINTEXT"}
        connection = Connection(
            bootstrap_servers=secured.sasl_bootstrap, timeout_ms=15_000, settings=settings
        )
        return connection.run(lambda: salt_of(connection, "SCRAM-SHA-512", "erin"))

    wait_until(lambda: salt() is not None, DEADLINE_SECONDS, lambda: "erin is not known")
    before = salt()
    assert before is not None and before.iterations == 5000
    secret = tmp_path / "secret"
    secret.write_text("pw-2\n")
    told = cli.run("user", "rotate", "erin", "--password-file", str(secret), *address, root)
    assert told.stdout.startswith("erin has another SCRAM-SHA-512 password; ")
    assert "pw-2" not in told.output
    erin = login(tmp_path, "scram.ScramLoginModule", "erin", "pw-2", "SCRAM-SHA-512")

    def is_let_in() -> bool:
        who = CliRunner().invoke(main, ["whoami", *address, erin])
        return who.stdout.startswith("User:erin  by SCRAM-SHA-512, SASL_PLAINTEXT\n")

    wait_until(is_let_in, DEADLINE_SECONDS, lambda: "erin is not let in")
    assert salt() == before
    assert "user create nobody" in cli.error("user", "rotate", "nobody", "--generate")
    described = cli.run("user", "describe", "erin").stdout
    assert described.startswith("erin  SCRAM-SHA-512 (5000 iterations)\n")
    assert "rights: none" in described
    assert "Did you mean 'erin'" in cli.error("user", "describe", "erim")


def test_passwords_are_not_taken_from_the_command_line(cli: CommandLine) -> None:
    """SEC-102: everybody on the machine sees it there."""
    for name in ("create", "rotate", "set"):
        assert "--password-file" in cli.error("user", name, "x", "--password", "y", code=2)
        assert "--password-file" in cli.error("user", name, "x", code=2)


def test_the_rule_that_decides_is_explained(cli: CommandLine) -> None:
    """SEC-102, on an authorizer of Kafka's."""
    cli.run("acl", "create", "frank", "read", "--resource", "topic", "--name", "f-", "--prefixed")
    cli.run("acl", "create", "*", "all", "--resource", "topic", "--name", "f-secret", "--deny")
    ask = ("acl", "explain", "frank", "describe", "--resource", "topic", "--name")

    def denied() -> bool:
        return cli.lines(*ask, "f-secret")[0].startswith("denied: the rule 'deny User:* all")

    wait_until(denied, DEADLINE_SECONDS, lambda: str(cli.lines(*ask, "f-secret")))
    assert cli.lines(*ask, "f-one") == [
        "allowed: the rule 'allow User:frank read on topic f- (prefixed) from *' decides; read"
        " implies describe",
        # Kafka hides settings of authorizers.
        "  but the super users are not shown: one may do everything",
    ]
    assert cli.lines(*ask, "other")[0].startswith("unknown: no rule is about this resource")
    matching = cli.json("acl", "list", "--resource", "topic", "--name", "f-secret", "--matching")
    assert {row["resource_name"] for row in matching} == {"f-", "f-secret"}


def test_anonymous_is_told_so(cli: CommandLine) -> None:
    """The plain listener takes everybody."""
    lines = cli.lines("whoami")
    assert lines[0] == "User:ANONYMOUS  by nothing, PLAINTEXT"
    assert "alter" in lines[2]

"""`barnabas dev --secure` as a process: what it lets in, what it keeps, and what nobody sees."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client import Producer, settings_from_file
from barnabas_protocol.settings.properties import parse_properties
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import DEADLINE_SECONDS
from tests.support.secure_dev import SecureDev
from tests.support.waiting import wait_until


def admin(running: SecureDev) -> tuple[str, str]:
    return "--command-config", str(running.folder / "client.properties")


async def produce(running: SecureDev) -> None:
    async with Producer(**settings_from_file(running.folder / "client.properties")) as producer:
        for value in (b"tea", b"coffee"):
            await producer.send("orders", value)


def password(running: SecureDev) -> str:
    text = (running.folder / "librdkafka.conf").read_text()
    return parse_properties(text)["sasl.password"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[SecureDev]:
    dev = SecureDev(tmp_path)
    try:
        dev.start()
        yield dev
    finally:
        dev.stop()


def test_a_restart_keeps_users_rights_and_passwords(running: SecureDev) -> None:
    """Issue 20: clients go on with the files that they have."""
    cli, as_admin = CommandLine(), admin(running)
    before = {path.name: path.read_text() for path in running.folder.iterdir()}
    cli.run("topic", "create", "orders", *as_admin)
    cli.run("user", "create", "bob", "--password-file", "-", *as_admin, text="bob-secret\n")
    cli.run("acl", "create", "bob", "read", "--resource", "topic", "--name", "orders", *as_admin)
    assert running.stop() == 0
    running.start()
    assert {path.name: path.read_text() for path in running.folder.iterdir()} == before
    bob = running.directory / "bob.properties"
    text = (running.folder / "client.properties").read_text()
    bob.write_text(text.replace('"admin"', '"bob"').replace(password(running), "bob-secret"))
    assert [row["topic"] for row in cli.json("topic", "list", "--command-config", str(bob))] == [
        "orders"
    ]
    refused = cli.error("topic", "delete", "orders", "--yes", "--command-config", str(bob))
    assert "TOPIC_AUTHORIZATION_FAILED" in refused
    explained = cli.lines(
        *("acl", "explain", "admin", "write", "--resource", "topic", "--name", "orders"), *as_admin
    )
    assert explained == ["allowed: User:admin is a super user"]


def test_a_wrong_password_and_a_stranger_s_authority_are_told(running: SecureDev) -> None:
    """SEC-100: one line, with the way out, and without the password."""
    cli = CommandLine()
    file = running.directory / "wrong.properties"
    text = (running.folder / "client.properties").read_text()
    file.write_text(text.replace(password(running), "canary-wrong-0001"))
    wrong = cli.error("topic", "list", "--command-config", str(file))
    assert "refuses the SCRAM-SHA-512 credentials" in wrong
    assert "canary" not in wrong
    lines = [line for line in text.splitlines() if "truststore" not in line]
    file.write_text("\n".join(lines))
    stranger = cli.error("topic", "list", "--command-config", str(file))
    assert "is not accepted" in stranger
    assert "ssl_cafile" in stranger
    plain = cli.error("topic", "list", "-b", running.bootstrap)
    assert "speaks TLS" in plain
    other = cli.error(
        *("topic", "list", "-b", f"127.0.0.2:{running.port}"), *admin(running), "--api-timeout", "3"
    )
    assert "no broker responds" in other


def test_three_brokers_know_each_other_by_their_certificates(tmp_path: Path) -> None:
    """SEC-60: replicas are in sync, and nobody else is a broker."""
    running = SecureDev(tmp_path, count=3)
    cli = CommandLine()
    try:
        running.start()
        as_admin = admin(running)
        cli.run("topic", "create", "orders", "--partitions", "3", "--replicas", "3", *as_admin)
        asyncio.run(produce(running))

        def are_in_sync() -> bool:
            status = cli.json("cluster", "status", *as_admin)
            return [one["out_of_sync"] for one in status["brokers"]] == [0, 0, 0]

        wait_until(are_in_sync, DEADLINE_SECONDS, lambda: str(cli.lines("cluster", "status")))
        assert sorted(cli.lines("consume", "orders", "--format", "value", *as_admin)) == [
            "coffee",
            "tea",
        ]
    finally:
        assert running.stop() == 0

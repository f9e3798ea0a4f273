"""`barnabas share` on a broker that serves share groups."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_client import ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.groups import GroupState
from tests.interop.share_brokers import prepare, send, take
from tests.interop.started_brokers import AnyBroker
from tests.support.command_line import CommandLine
from tests.support.in_process_broker import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

Unique = Callable[[str], str]


@pytest.fixture
def cli(share_broker: AnyBroker) -> CommandLine:
    """The command against a broker with share groups."""
    return CommandLine(share_broker.bootstrap)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Unique:
    """Names that no other test has."""
    return lambda stem: f"{stem}-{request.node.name.partition('[')[0][-60:]}"


def made(cli: CommandLine, topic: str, group: str, *values: bytes) -> None:
    """A topic with records, and a group that begins with the first."""

    async def run() -> None:
        await prepare(cli.bootstrap, topic, group)
        if values:
            await send(cli.bootstrap, topic, values, partition=0)

    asyncio.run(run())


def until_empty(cli: CommandLine, group: str) -> None:
    async def run() -> None:
        async with Admin(cli.bootstrap) as admin:

            async def is_empty() -> bool:
                found = (await admin.share_groups.describe([group]))[group].unwrap()
                return found.state is GroupState.EMPTY

            await eventually(is_empty)

    asyncio.run(run())


def test_records_are_written_and_accepted(cli: CommandLine, unique: Unique) -> None:
    """SHR-40: in a format, with counts; the second run has nothing to do."""
    topic, group = unique("t"), unique("g")
    made(cli, topic, group, b"one", b"two", b"three")
    assert cli.lines("share", "consume", topic, "-g", group, "-n", "1") == ["one"]
    rest = [
        json.loads(line) for line in cli.lines("share", "consume", topic, "-g", group, "-F", "json")
    ]
    assert [(row["value"], row["offset"]) for row in rest] == [("two", 1), ("three", 2)]
    assert all(row["delivery_count"] in (1, 2) for row in rest)
    assert cli.lines("share", "consume", topic, "-g", group) == []
    assert "No such topic" in cli.error("share", "consume", topic + "x", "-g", group)


def test_released_records_are_shown_once_and_kept(cli: CommandLine, unique: Unique) -> None:
    """SHR-40: a look at a queue, which costs deliveries."""
    topic, group = unique("t"), unique("g")
    made(cli, topic, group, b"one", b"two")
    look = ("share", "consume", topic, "-g", group, "--acknowledge", "release", "--timeout", "5")
    assert cli.lines(*look) == ["one", "two"]
    rejected = cli.lines("share", "consume", topic, "-g", group, "--acknowledge", "reject")
    assert rejected == ["one", "two"]
    assert cli.lines("share", "consume", topic, "-g", group) == []


def test_groups_are_listed_described_and_deleted(cli: CommandLine, unique: Unique) -> None:
    """SHR-32: while a member is in, and when it has left."""
    topic, group = unique("t"), unique("g")
    made(cli, topic, group, b"one", b"two")

    async def join() -> ShareConsumer:
        consumer = ShareConsumer(cli.bootstrap, group_id=group, client_id="worker")
        await consumer.start()
        consumer.subscribe([topic])
        await take(consumer, 2)
        await consumer.commit()
        return consumer

    def look() -> None:
        assert {"group": group, "state": "Stable"} in cli.json("share", "list")
        (described,) = cli.json("share", "describe", group)
        assert (described["state"], described["member_count"]) == ("Stable", 1)
        (member,) = described["members"]
        assert member["client"] == "worker"
        assert member["partitions"] == [f"{topic}-0"]
        (row,) = cli.json("share", "offsets", group)
        assert (row["end_offset"], row["clients"]) == (2, ["worker"])
        assert row["lag"] in (0, None)
        text = cli.run("share", "describe", group).stdout
        assert f"{group}  Stable, 1 member, lag 0" in text
        assert "worker" in text

    # Between its calls the member sends no heartbeats, for which its session has time.
    with asyncio.Runner() as runner:
        consumer = runner.run(join())
        look()
        runner.run(consumer.close())
    until_empty(cli, group)
    assert cli.json("share", "list", "--state", "stable") == []
    assert "no members" in cli.run("share", "describe", group).stderr
    cli.run("share", "delete", group, "--topic", topic, "--yes")
    assert cli.json("share", "offsets", group) == []
    cli.run("share", "delete", group, "--yes")
    assert "No such share group" in cli.error("share", "describe", group)


def test_a_reset_shows_first_then_moves_and_can_be_undone(
    cli: CommandLine, unique: Unique, tmp_path: Path, share_broker: AnyBroker
) -> None:
    """SHR-32: as `group reset` does; records from there on are delivered again."""
    if getattr(share_broker, "version", "") == "4.1.1":
        pytest.skip("answers about no partition")
    topic, group = unique("t"), unique("g")
    made(cli, topic, group, *[b"%d" % number for number in range(6)])
    assert len(cli.lines("share", "consume", topic, "-g", group)) == 6
    until_empty(cli, group)
    shown = cli.json("share", "reset", group, "--to-offset", "4")
    assert shown["executed"] is False
    (change,) = shown["changes"]
    assert change["new"] == 4
    assert cli.json("share", "reset", group, "--to-offset", "4", "--dry-run") == shown
    undo = tmp_path / "undo.csv"
    moved = cli.json(
        "share", "reset", group, "--to-offset", "4", "--execute", "--undo-file", str(undo)
    )
    assert moved["undo"].startswith(f"barnabas share reset {group} --from-file")
    assert cli.lines("share", "consume", topic, "-g", group) == ["4", "5"]
    until_empty(cli, group)
    cli.run("share", "reset", group, "--to-earliest", "--execute", "--undo-file", str(undo))
    assert len(cli.lines("share", "consume", topic, "-g", group)) == 6
    assert "No such group" in cli.error("share", "reset", group + "x", "--to-earliest")


def test_a_group_of_another_kind_is_told_apart(cli: CommandLine, unique: Unique) -> None:
    """SHR-28: names are shared by all kinds of groups."""
    topic, group = unique("t"), unique("g")
    made(cli, topic, unique("other"), b"one")
    cli.run("consume", topic, "--group", group, "--from-beginning")
    assert "is no share group: see 'barnabas group describe" in cli.error(
        "share", "describe", group
    )

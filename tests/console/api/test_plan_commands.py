"""The commands that plans show: each is run, and then there is nothing left to change (CON-102).

Who copies the command instead of pressing the button gets the same.
"""

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.cluster.offsets import OffsetAndMetadata
from barnabas_client.errors import BarnabasError
from barnabas_client.producer.producer import Producer
from barnabas_protocol.ids import TopicPartition
from tests.support.console_server import OWN, running_console
from tests.support.in_process_broker import running_broker

GROUP = "billing of Jo's shop; $(x)"
RECORDS = 10
AUTHORIZED = {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:ANONYMOUS"}
RESETS: list[dict[str, Any]] = [
    {"kind": "reset-offsets", "group": GROUP, **to}
    for to in (
        {"to": "to_latest"},
        {"to": "to_earliest"},
        {"to": "shift_by", "value": "3", "scopes": ["orders"]},
        {"to": "to_offset", "value": "7", "scopes": ["orders:0"]},
        {"to": "by_duration", "value": "1h30m"},
        {"to": "from_file", "value": "orders,0,5\n"},
        {"to": "to_datetime", "value": "2026-01-02T03:04:05Z"},
    )
]
PLANS: list[dict[str, Any]] = [
    {"kind": "create-topic", "topic": "new", "partitions": 2, "replicas": 1},
    {
        "kind": "create-topic",
        "topic": "tuned",
        "partitions": 1,
        "config": {"retention.ms": "7d", "cleanup.policy": "compact,delete"},
    },
    {
        "kind": "alter-topic",
        "topic": "orders",
        "partitions": 3,
        "config": {"max.message.bytes": "2000000"},
    },
    {"kind": "alter-topic", "topic": "orders", "config": {"max.message.bytes": None}},
    {
        "kind": "create-acl",
        "principal": "User:Jo's app",
        "resource_type": "topic",
        "resource_name": "or",
        "pattern": "prefixed",
        "operation": "describe_configs",
        "permission": "deny",
        "host": "10.1.2.3",
    },
    {
        "kind": "create-acl",
        "principal": "alice",
        "resource_type": "cluster",
        "resource_name": "kafka-cluster",
        "operation": "alter",
    },
    {
        "kind": "change-quotas",
        "entity": {"user": "Jo's app", "client-id": None},
        "quotas": {"producer_byte_rate": 1_048_576, "request_percentage": 12.5},
    },
    {
        "kind": "change-quotas",
        "entity": {"user": "Jo's app", "client-id": None},
        "quotas": {"producer_byte_rate": None, "consumer_byte_rate": 2_000_000},
    },
    {
        "kind": "change-quotas",
        "entity": {"ip": "10.1.2.3"},
        "quotas": {"connection_creation_rate": 5},
    },
    *RESETS,
    {"kind": "delete-group", "group": GROUP},
    {"kind": "delete-topic", "topic": "new"},
    # What begins with a dash looks like an option.
    {"kind": "create-topic", "topic": "-yes", "partitions": 1},
    {"kind": "alter-topic", "topic": "-yes", "partitions": 2},
    {"kind": "delete-topic", "topic": "-yes"},
    {"kind": "reset-offsets", "group": "--execute", "to": "to_latest"},
    {"kind": "delete-group", "group": "--execute"},
]


async def ask(console: Any, body: dict[str, Any]) -> dict[str, Any]:
    async with console.post("/api/v1/plans", json=body, headers=OWN) as response:
        found: dict[str, Any] = await response.json()
        return {**found, "status": response.status}


async def run_command(command: str, directory: Path) -> None:
    """As a shell takes it apart. Fails where the command does."""
    program, *words = shlex.split(command)
    assert program == "barnabas", command
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "barnabas_cli.main", *words),
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate(b"")
    assert process.returncode == 0, f"{command}\n{said.decode()}"


@pytest.mark.timeout(600)
def test_after_the_command_of_a_plan_nothing_is_left_to_change(tmp_path: Path) -> None:
    """CON-102: names with blanks and quotes, too."""

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data", **AUTHORIZED) as broker,
            Admin(f"127.0.0.1:{broker.port}") as admin,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):
            topic = NewTopic(name="orders", partition_count=1, replication_factor=1)
            (await admin.topics.create([topic])).unwrap()
            async with Producer(f"127.0.0.1:{broker.port}") as producer:
                for number in range(RECORDS):
                    await producer.send("orders", b"%d" % number, partition=0)
            offsets = {TopicPartition("orders", 0): OffsetAndMetadata(4)}
            for group in (GROUP, "--execute"):
                (await admin.group_offsets.alter(group, offsets)).unwrap()
            (tmp_path / "offsets.csv").write_text("orders,0,5\n")
            kinds = set()
            for body in PLANS:
                plan = await ask(console, body)
                assert plan["status"] == 200 and plan["refusal"] is None, (body, plan)
                assert plan["change_count"] > 0, body
                kinds.add(body["kind"])
                assert plan["commands"], body
                for command in plan["commands"]:
                    await run_command(command, tmp_path)
                if body["kind"] == "reset-offsets" and body["to"] == "shift_by":
                    continue  # once more is another place
                after = await ask(console, body)
                assert after["status"] != 200 or not after["change_count"], (body, after)
            # `acl delete` removes by filters, which may mean more, and records go by no command.
            every = (await ask(console, {"kind": "none"}))["message"].split("one of ")[1]
            untested = set(every.split(", ")) - kinds
            assert untested == {"delete-acl", "delete-records", "fence-producer"}
            for body in (
                {**PLANS[5], "kind": "delete-acl"},
                {"kind": "delete-records", "topic": "orders", "before": {"0": 4}},
            ):
                assert not (await ask(console, body))["commands"]

    asyncio.run(run())


def test_the_command_that_undoes_a_reset_brings_the_offsets_back(tmp_path: Path) -> None:
    """CON-102, CON-120: with the file that the console offers beside it."""

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data") as broker,
            Admin(f"127.0.0.1:{broker.port}") as admin,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):
            (await admin.topics.create([NewTopic(name="orders")])).unwrap()
            place = TopicPartition("orders", 0)
            async with Producer(f"127.0.0.1:{broker.port}") as producer:
                for number in range(RECORDS):
                    await producer.send("orders", b"%d" % number, partition=0)
            (await admin.group_offsets.alter(GROUP, {place: OffsetAndMetadata(4)})).unwrap()
            plan = await ask(console, RESETS[0])
            path, body = f"/api/v1/plans/{plan['id']}/apply", {"hash": plan["hash"]}
            async with console.post(path, json=body, headers=OWN) as response:
                (end,) = [line for line in (await response.text()).split("\n\n") if "end" in line]
            outcome = json.loads(end.partition("data: ")[2])
            undo = outcome["undo"]
            async with console.get(f"/api/v1/undo-files/{undo['id']}", headers=OWN) as response:
                (tmp_path / undo["file_name"]).write_bytes(await response.read())
            await run_command(outcome["undo_command"], tmp_path)
            found = (await admin.group_offsets.list([GROUP])).unwrap()[GROUP][place]
            assert found is not None and found.offset == 4

    asyncio.run(run())


def test_the_command_that_fences_a_producer_does(tmp_path: Path) -> None:
    """CON-102, CON-121: what it has open is aborted."""

    async def run() -> None:
        async with (
            running_broker(tmp_path / "data") as broker,
            Admin(f"127.0.0.1:{broker.port}") as admin,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):
            (await admin.topics.create([NewTopic(name="orders")])).unwrap()
            settings = {"transactional_id": "Jo's app"}
            async with Producer(f"127.0.0.1:{broker.port}", **settings) as producer:
                await producer.init_transactions()
                await producer.begin_transaction()
                await producer.send("orders", b"1", partition=0)
                body = {"kind": "fence-producer", "transactional_id": "Jo's app"}
                plan = await ask(console, body)
                assert [row["old"] for row in plan["rows"]] == ["open"]
                (command,) = plan["commands"]
                await run_command(command, tmp_path)
                after = await ask(console, body)
                assert "open" not in [row["old"] for row in after["rows"]]
                with pytest.raises(BarnabasError):
                    await producer.commit_transaction()

    asyncio.run(run())

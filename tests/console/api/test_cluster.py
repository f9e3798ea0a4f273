"""The API of the cluster's page: the rows of the command line, each part by itself (CON-121)."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.quotas import QuotaEntity
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.producer.producer import Producer
from tests.support.console_server import running_console, told
from tests.support.in_process_broker import running_broker
from tests.support.simulated_clock import HandClock


async def told_by_the_command_line(bootstrap: str, *words: str) -> Any:
    """What `barnabas ... -o json` prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "barnabas_cli.main",
        *words,
        "-o",
        "json",
        "-b",
        bootstrap,
        stdout=subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("quotas", ("quota", "list")),
        ("users", ("user", "list")),
        ("features", ("cluster", "features")),
        ("transactions", ("transaction", "list")),
    ],
)
def test_a_part_is_what_the_command_line_tells(
    path: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    """CON-102."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            bootstrap = f"127.0.0.1:{broker.port}"
            async with Admin(bootstrap) as admin, running_console(bootstrap) as console:
                entity = QuotaEntity.of(client_id="web")
                (await admin.quotas.alter({entity: {"producer_byte_rate": 1e6}})).unwrap()
                (await admin.topics.create([NewTopic(name="orders", partition_count=1)])).unwrap()
                producer = Producer(bootstrap, transactional_id="till")
                async with producer, producer.transaction():
                    await producer.send("orders", b"1")
                rows = (await told(console, f"/{path}"))["rows"]
                expected = await told_by_the_command_line(bootstrap, *words)
                if path == "transactions":
                    names = {"transactional_id", "state", "producer_id"}
                    rows = [{name: row[name] for name in names} for row in rows]
                assert rows == expected
                assert rows or path == "users"

    asyncio.run(run())


def test_an_open_transaction_comes_with_all_about_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            bootstrap = f"127.0.0.1:{broker.port}"
            async with Admin(bootstrap) as admin, running_console(bootstrap) as console:
                (await admin.topics.create([NewTopic(name="orders", partition_count=1)])).unwrap()
                producer = Producer(bootstrap, transactional_id="till")
                async with producer, producer.transaction():
                    await producer.send("orders", b"1")
                    await producer.flush()
                    [row] = (await told(console, "/transactions"))["rows"]
                assert row["state"] == "Ongoing"
                assert row["started_at"]
                assert row["partitions"] == [{"topic": "orders", "partition": 0}]

    asyncio.run(run())


def test_the_metadata_log_and_moves_are_told(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):
            quorum = await told(console, "/quorum")
            assert quorum["leader"] == 0
            [member] = quorum["replicas"]
            assert (member["role"], member["is_leader"]) == ("member", True)
            assert (await told(console, "/reassignments"))["rows"] == []

    asyncio.run(run())


def test_what_is_not_served_is_told_for_its_part_alone(tmp_path: Path) -> None:
    """Without an authorizer there are no ACLs; the other parts are shown all the same."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}") as console,
        ):
            error = await told(console, "/acls", status=501)
            assert error["error"] == "SECURITY_DISABLED"
            assert (await told(console, "/features"))["rows"]

    asyncio.run(run())


@pytest.mark.parametrize("pages", [("/overview", "/quorum"), ("/quorum", "/overview")])
def test_pages_that_look_at_the_same_do_not_get_each_other_s_facts(
    pages: tuple[str, str], tmp_path: Path
) -> None:
    """CON-161: calls are shared by name, and both the overview and this page name the quorum."""

    async def run() -> None:
        async with (
            running_broker(tmp_path) as broker,
            running_console(f"127.0.0.1:{broker.port}", clock=HandClock()) as console,
        ):
            for page in pages:
                await told(console, page)

    asyncio.run(run())

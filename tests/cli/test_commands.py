"""The `barnabas` command as a user meets it."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from barnabas_cli.main import main
from barnabas_protocol.api import ApiKey
from tests.broker.test_produce_and_fetch import (
    batch,
    fetch_request,
    produce_request,
    produced,
    topic_id_of,
)
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient


def barnabas(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def written(directory: Path) -> bytes:
    """A stopped broker's data with one record; returns the topic's id."""

    async def run() -> bytes:
        async with (
            running_broker(directory) as server,
            await RawClient.connect(server.port) as client,
        ):
            topic_id = await topic_id_of(client)
            await produced(client, 9, produce_request(batch(b"carried over")))
            return topic_id

    return asyncio.run(run())


def test_an_imported_partition_serves_its_records_under_its_id(tmp_path: Path) -> None:
    """Issue 3, storage: the topic gets the id of `partition.metadata`; the next append follows."""
    topic_id = written(tmp_path / "source")
    result = barnabas(
        "log", "import", str(tmp_path / "source" / "orders-0"), "--data", str(tmp_path / "target")
    )
    assert result.exit_code == 0, result.output
    assert "orders-0: 1 records" in result.output

    async def check() -> None:
        async with (
            running_broker(tmp_path / "target") as server,
            await RawClient.connect(server.port) as client,
        ):
            assert await topic_id_of(client) == topic_id
            response = await client.call(ApiKey.FETCH, 13, fetch_request(0, topic_id))
            assert b"carried over" in bytes(response.responses[0].partitions[0].records)
            assert (await produced(client, 9, produce_request(batch(b"x")))).base_offset == 1

    asyncio.run(check())


def test_import_refuses_a_running_broker_a_known_topic_and_half_a_topic(tmp_path: Path) -> None:
    """Nothing is changed, and the message says what to do."""
    written(tmp_path / "source")
    partition = str(tmp_path / "source" / "orders-0")

    async def while_running() -> Result:
        async with running_broker(tmp_path / "target"):
            return await asyncio.to_thread(
                barnabas, "log", "import", partition, "--data", str(tmp_path / "target")
            )

    running = asyncio.run(while_running())
    assert running.exit_code == 1
    assert "another broker is running" in running.output

    again = barnabas("log", "import", partition, "--data", str(tmp_path / "source"))
    assert again.exit_code == 1
    assert "already exists" in again.output

    (tmp_path / "source" / "orders-0").rename(tmp_path / "source" / "orders-1")
    half = barnabas(
        "log", "import", str(tmp_path / "source" / "orders-1"), "--data", str(tmp_path / "target")
    )
    assert half.exit_code == 1
    assert "partitions [0] too" in half.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lgo"], "Did you mean 'log'?"),
        (["dev", "--brokers", "0"], "1<=x<=9"),
        (["dev", "--set", "nonsense"], "KEY=VALUE"),
        (["broker"], "Missing option '--config'"),
    ],
)
def test_wrong_words_get_one_line_that_says_what_to_do(arguments: list[str], words: str) -> None:
    """A number of brokers that cannot be is told; unknown commands name the nearest."""
    result = barnabas(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_help_lists_the_commands_without_running_anything() -> None:
    result = barnabas("--help")
    assert result.exit_code == 0
    for name in ("broker", "dev", "log"):
        assert name in result.output

"""`barnabas transaction` against a whole broker."""

import asyncio
import json
import sys

import pytest
from click.testing import CliRunner

from barnabas_cli.main import main
from barnabas_protocol.errors import ErrorCode
from tests.support.in_process_broker import running_broker
from tests.support.raw_client import RawClient
from tests.support.transactional_client import V1, TransactionalClient, make_topic, read

TOPIC = "orders"


async def barnabas(port, *arguments):
    """Run the command as a process, beside the broker of this loop."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "barnabas_cli.main", *arguments, "-b", f"127.0.0.1:{port}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


def with_open_transaction(tmp_path, work):
    async def scenario():
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            await make_topic(client, TOPIC)
            producer = TransactionalClient(client, "tx-1", V1)
            await producer.find_coordinator()
            assert await producer.init() == ErrorCode.NONE
            assert await producer.write(TOPIC, b"one") == ErrorCode.NONE
            await work(server.port, client, producer)

    asyncio.run(scenario())


def test_open_transactions_are_listed_and_described(tmp_path):
    async def work(port, client, producer):
        code, output = await barnabas(port, "transaction", "list", "--state", "ongoing")
        assert code == 0, output
        assert "tx-1" in output
        assert "Ongoing" in output
        code, output = await barnabas(port, "transaction", "list", "--longer-than", "1h")
        assert "There are no transactional ids." in output
        code, output = await barnabas(port, "transaction", "describe", "tx-1", "-o", "json")
        (described,) = json.loads(output)
        assert described["state"] == "Ongoing"
        assert described["producer_id"] == producer.producer_id
        assert described["partitions"] == [{"topic": TOPIC, "partition": 0}]
        code, output = await barnabas(port, "transaction", "describe", "tx-2")
        assert code == 1
        assert "tx-1" in output

    with_open_transaction(tmp_path, work)


def test_abort_of_an_id_fences_its_producer(tmp_path):
    async def work(port, client, producer):
        code, output = await barnabas(port, "transaction", "abort", "tx-1", "--yes")
        assert (code, output) == (0, "aborted and fenced tx-1\n")
        assert await producer.end(commits=True) == ErrorCode.PRODUCER_FENCED
        assert (await read(client, TOPIC))[0] == []

    with_open_transaction(tmp_path, work)


def test_what_its_coordinator_knows_does_not_hang(tmp_path):
    async def work(port, client, producer):
        code, output = await barnabas(port, "transaction", "hanging", "--older-than", "0s")
        assert (code, output) == (0, "No transaction hangs.\n")
        code, output = await barnabas(
            port,
            *("transaction", "abort", "--topic", TOPIC, "--partition", "0"),
            *("--producer-id", str(producer.producer_id), "--yes"),
        )
        assert code == 1
        assert "its coordinator may know of it" in output.replace("\n", " ")

    with_open_transaction(tmp_path, work)


def test_what_hangs_is_found_and_aborted(tmp_path):
    """A transaction whose coordinator has forgotten it: here its id has expired meanwhile."""

    async def forget(server):
        coordinator = server.data.transactions.coordinator
        for _, shard in coordinator.runtime.shards():
            shard.transactions.clear()

    async def scenario():
        async with (
            running_broker(tmp_path) as server,
            await RawClient.connect(server.port) as client,
        ):
            await make_topic(client, TOPIC)
            producer = TransactionalClient(client, "tx-1", V1)
            await producer.find_coordinator()
            assert await producer.init() == ErrorCode.NONE
            assert await producer.write(TOPIC, b"one") == ErrorCode.NONE
            await forget(server)
            place = f"{producer.producer_id}"
            code, output = await barnabas(
                server.port, "transaction", "hanging", TOPIC, "--older-than", "0s"
            )
            assert code == 0, output
            assert place in output
            code, output = await barnabas(
                server.port,
                *("transaction", "abort", "--topic", TOPIC, "--partition", "0"),
                *("--producer-id", place, "--yes"),
            )
            assert code == 0, output
            assert await read(client, TOPIC) == ([], 2)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name transactional ids"),
        (("tx-1", "--topic", "a"), "Name transactional ids"),
        (("--topic", "a"), "go together"),
        (("--topic", "a", "--partition", "0"), "go together"),
    ],
)
def test_abort_wants_one_or_the_other(arguments, said):
    result = CliRunner().invoke(main, ["transaction", "abort", *arguments])
    assert result.exit_code == 2
    assert said in result.output

"""`kafka-transactions` prints the same as against Apache Kafka (TXN-10, KIP-664).

As `test_kafka_tools.py` does for the other tools. Before the calls, a client has left one
transaction in each state that one can find them in, and a hanging one: its partition is in no
transaction that the coordinator knows, which brokers only let happen that do not verify.

Not here: topics that are not there. The tool tries again for a minute, and what it says then
depends on what it is just at.
"""

import asyncio
import difflib
import re
from collections.abc import Iterator

import pytest

from barnabas_protocol.errors import ErrorCode
from tests.interop.started_brokers import AnyBroker
from tests.interop.transcripts import Transcript
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_tools import ToolCall
from tests.support.raw_client import RawClient
from tests.support.transactional_client import V1, V2, TransactionalClient, make_topic

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

START_SECONDS = 240
"""A JVM takes long on a busy machine."""
PROPERTIES = {
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "transaction.state.log.num.partitions": "1",
    "transaction.partition.verification.enable": "false",
}
UNORDERED = frozenset(
    # Listings in the order of somebody's hash table.
    {
        "list",
        "list by pattern",
        "list what lasts",
        "list what lasts for long",
        "list what is open at the end",
        "list at the end",
        "describe producers",
        "describe producers on a broker",
        "describe producers at the end",
        "find hanging on a broker",
        "find hanging in a topic",
        "usage",
    }
)


async def leave_transactions(broker: AnyBroker) -> int:
    """One transaction in each state, of both versions, and two hanging ones.

    Returns the producer id of the last.
    """
    async with await RawClient.connect(broker.port) as connection:
        for topic in ("orders", "ledger"):
            await make_topic(connection, topic)
        for name, version in (("one", V1), ("two", V2)):
            done = TransactionalClient(connection, f"done-{name}", version)
            await done.find_coordinator()
            for commits in (True, False):
                assert await done.init() == ErrorCode.NONE
                assert await done.write("orders", b"first", b"second") == ErrorCode.NONE
                assert await done.end(commits=commits) == ErrorCode.NONE
            started = TransactionalClient(connection, f"open-{name}", version)
            assert await started.init(timeout_ms=900_000) == ErrorCode.NONE
            assert await started.write("orders", b"third") == ErrorCode.NONE
            assert await started.write("ledger", b"third") == ErrorCode.NONE
        begun = TransactionalClient(connection, "begun")
        assert await begun.init() == ErrorCode.NONE
        for name in ("hangs", "hangs-too"):
            hanging = TransactionalClient(connection, name, V1)
            assert await hanging.init() == ErrorCode.NONE
            assert await hanging.send("ledger", b"lost") == ErrorCode.NONE
        return hanging.producer_id


def _script(hanging_producer_id: int = 0) -> dict[str, ToolCall]:
    """All calls by what they do, in order; `@` stands for the address."""

    def call(*arguments: str) -> ToolCall:
        return ToolCall("transactions", ("--bootstrap-server", "@", *arguments))

    def describe(name: str) -> ToolCall:
        return call("describe", "--transactional-id", name)

    def producers(topic: str, *more: str) -> ToolCall:
        return call("describe-producers", "--topic", topic, "--partition", "0", *more)

    def find(*arguments: str) -> ToolCall:
        return call("find-hanging", *arguments)

    def abort(*arguments: str) -> ToolCall:
        return call("abort", "--topic", "ledger", "--partition", "0", *arguments)

    def terminate(name: str) -> ToolCall:
        return call("forceTerminateTransaction", "--transactionalId", name)

    return {
        "usage": call(),
        "list": call("list"),
        "list by pattern": call("list", "--transactional-id-pattern", "open-.*"),
        "list by a bad pattern": call("list", "--transactional-id-pattern", "(open"),
        "list what lasts": call("list", "--duration-filter", "0"),
        "list what lasts for long": call("list", "--duration-filter", "900000"),
        "describe what is open": describe("open-one"),
        "describe what is open of version 2": describe("open-two"),
        "describe what has ended": describe("done-one"),
        "describe what has ended of version 2": describe("done-two"),
        "describe what has begun": describe("begun"),
        "describe what is not there": describe("nobody"),
        "describe producers": producers("ledger"),
        "describe producers on a broker": producers("orders", "--broker-id", "1"),
        "describe producers on a missing broker": producers("orders", "--broker-id", "9"),
        "find hanging nowhere": find(),
        "find hanging in a partition of no topic": find("--partition", "0"),
        "find hanging on a broker": find("--broker-id", "1"),
        "find hanging in a topic": find("--topic", "ledger", "--max-transaction-timeout", "1"),
        "find hanging in a partition": find("--topic", "orders", "--partition", "0"),
        "abort nothing": abort(),
        "abort what does not start there": abort("--start-offset", "77"),
        "abort without an epoch": abort("--producer-id", "0"),
        "abort what hangs": abort("--start-offset", "2"),
        "abort what hangs by its producer": abort(
            *(
                "--producer-id",
                str(hanging_producer_id),
                "--producer-epoch",
                "0",
                "--coordinator-epoch",
                "0",
            )
        ),
        "find hanging after the aborts": find("--broker-id", "1"),
        "terminate what is open": terminate("open-one"),
        "terminate what is open of version 2": terminate("open-two"),
        "terminate what has begun": terminate("begun"),
        "describe what was terminated": describe("open-one"),
        "describe what was terminated of version 2": describe("open-two"),
        "list what is open at the end": call("list", "--duration-filter", "0"),
        "list at the end": call("list"),
        "describe producers at the end": producers("ledger"),
    }


CALL_NAMES = tuple(_script())


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Transcript]]:
    """The transcripts of both; each broker runs alone."""
    result = {}
    for kind in ("apache", "barnabas"):
        directory = tmp_path_factory.mktemp(f"transaction-tools-{kind}")
        broker: AnyBroker
        if kind == "apache":
            broker = ApacheKafka(directory / "broker", properties=PROPERTIES, heap="512M")
        else:
            broker = BarnabasProcess(directory / "broker", properties=PROPERTIES)
        broker.start(START_SECONDS)
        try:
            script = _script(asyncio.run(leave_transactions(broker)))
            result[kind] = Transcript(broker, directory / "calls", script)
        finally:
            broker.stop()
    yield result


@pytest.mark.parametrize("name", CALL_NAMES)
def test_the_tool_prints_the_same(name: str, transcripts: dict[str, Transcript]) -> None:
    """TXN-10: output, errors and exit code."""
    expected, found = (_comparable(transcripts[kind].lines(name)) for kind in transcripts)
    if name in UNORDERED:
        expected, found = sorted(expected), sorted(found)
    difference = "\n".join(
        difflib.unified_diff(expected, found, "Apache Kafka", "Barnabas", lineterm="")
    )
    assert not difference, f"{name}:\n{difference}"


def _comparable(lines: list[str]) -> list[str]:
    """Leave out for how long a transaction has been open, in milliseconds or minutes."""
    lines = [re.sub(r"\bTIME \d+\b", "TIME DURATION", line) for line in lines]
    return [re.sub(r"\b1000 \d{8}$", "1000 DURATION", line) for line in lines]

"""The clients of examples/ as programs: all write the same orders and read them in their group.

The one with Barnabas' own client runs always; the others need toolchains (`make interop`).
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client.admin import Admin
from barnabas_testing.broker import Broker
from tests.support.cache import python_environment
from tests.support.client_programs import INTEROP, JAVA_VERSIONS, JavaClient, KafkajsClient
from tests.support.go_tools import go_program

CLIENTS = Path(__file__).resolve().parents[2] / "examples" / "clients"
ORDERS = sorted(f"customer-{number % 3} order {number}" for number in range(10))


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker.bootstrap_servers


def printed(command: list[str], bootstrap: str, **environment: str) -> list[str]:
    done = subprocess.run(
        command,
        env={**os.environ, **environment, "BOOTSTRAP_SERVERS": bootstrap},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # All of it is committed, so the example that is run next has its own to read.
    assert asyncio.run(committed(bootstrap)) == len(ORDERS)
    return sorted(line for line in done.stdout.splitlines() if line.startswith("customer-"))


async def committed(bootstrap: str) -> int:
    """How many records the group of the examples has read for good."""
    async with Admin(bootstrap) as admin:
        offsets = (await admin.group_offsets.list(["billing"])).unwrap()["billing"]
        return sum(one.offset for one in offsets.values() if one is not None)


def test_the_example_with_the_own_client_works(bootstrap: str) -> None:
    assert printed([sys.executable, str(CLIENTS / "python" / "orders.py")], bootstrap) == ORDERS


@pytest.mark.interop
def test_the_example_with_librdkafka_works(bootstrap: str) -> None:
    python = python_environment("modern", INTEROP / "requirements" / "modern.txt")
    program = CLIENTS / "python" / "orders_librdkafka.py"
    assert printed([str(python), str(program)], bootstrap) == ORDERS


@pytest.mark.interop
def test_the_example_in_java_works(bootstrap: str) -> None:
    """Started from its source, as its first lines say."""
    jars = JavaClient(JAVA_VERSIONS[-1]).jars()
    program = CLIENTS / "java" / "Orders.java"
    assert printed(["java", "-cp", f"{jars}/*", str(program)], bootstrap) == ORDERS


@pytest.mark.interop
def test_the_example_in_go_works(bootstrap: str) -> None:
    assert printed([str(go_program(CLIENTS / "go"))], bootstrap) == ORDERS


@pytest.mark.interop
def test_the_example_in_javascript_works(bootstrap: str) -> None:
    home = KafkajsClient().environment()["KAFKAJS_HOME"]
    program = CLIENTS / "javascript" / "orders.js"
    environment = {"NODE_PATH": f"{home}/node_modules"}
    assert printed(["node", str(program)], bootstrap, **environment) == ORDERS

"""The pytest plugin: brokers as fixtures, found by pytest once the package is installed.

`barnabas_broker` lives as long as the session (with xdist, one for each worker), the two others as
long as a module or a single test. `barnabas_topic` is a new topic for each test, so that tests can
share a broker without seeing one another's records.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from barnabas_testing.broker import Broker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Settings for all fixtures, in the configuration of pytest."""
    parser.addini("barnabas_brokers", "How many brokers the fixtures start.", default="1")
    parser.addini(
        "barnabas_secure",
        "Whether clients of the fixtures' brokers need TLS, log-in and rights.",
        type="bool",
        default=False,
    )
    parser.addini(
        "barnabas_settings",
        "Broker properties, KEY=VALUE, one a line.",
        type="linelist",
        default=[],
    )


def _running(config: pytest.Config) -> Iterator[Broker]:
    pairs = (line.partition("=") for line in config.getini("barnabas_settings"))
    settings = {key.strip(): value.strip() for key, _, value in pairs}
    with Broker(
        brokers=int(config.getini("barnabas_brokers")),
        settings=settings,
        secure=config.getini("barnabas_secure"),
    ) as broker:
        yield broker


@pytest.fixture(scope="session")
def barnabas_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A broker for the whole session: the cheapest, with a topic of its own for each test."""
    yield from _running(pytestconfig)


@pytest.fixture(scope="module")
def barnabas_broker_module(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A broker for the tests of one module."""
    yield from _running(pytestconfig)


@pytest.fixture
def barnabas_broker_function(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A broker for one test, which may stop or kill it."""
    yield from _running(pytestconfig)


@pytest.fixture
def barnabas_topic(barnabas_broker: Broker) -> str:
    """The name of a new topic with one partition, on the broker of the session."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    asyncio.run(_create(barnabas_broker, name))
    return name


async def _create(broker: Broker, name: str) -> None:
    from barnabas_client.admin import Admin, NewTopic

    async with Admin(**broker.client_settings) as admin:
        created = await admin.topics.create([NewTopic(name=name, partition_count=1)])
        created[name].unwrap()

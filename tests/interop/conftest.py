"""The brokers that the interop tests run against.

`broker` is Barnabas; with `BARNABAS_INTEROP_BROKER=apache` it is Apache Kafka, the oracle against
which the suites themselves are checked. Each test module gets a fresh broker.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from tests.interop.share_brokers import SHARE_BROKERS, start_share_broker
from tests.interop.started_brokers import (
    LIKE_APACHE,
    PROPERTIES,
    AnyBroker,
    AnyCluster,
    start_broker,
)
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.kafka_cluster import BROKER_IDS, KafkaCluster


@pytest.fixture(scope="session")
def broker_kind() -> str:
    return os.environ.get("BARNABAS_INTEROP_BROKER", "barnabas")


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, broker_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    """One broker for the tests of a module; it must end cleanly.

    A module adds to its settings with a dictionary `BROKER_PROPERTIES`.
    """
    properties = {**PROPERTIES, **getattr(request.module, "BROKER_PROPERTIES", {})}
    running = start_broker(broker_kind, tmp_path_factory.mktemp(broker_kind), properties)
    yield running
    assert running.process is not None
    assert running.process.is_running(), f"the broker died:\n{running.process.log_tail()}"
    code = running.stop()
    assert code == (0 if broker_kind == "barnabas" else 143), running.process.log_tail()


@pytest.fixture
def start(
    tmp_path: Path,
) -> Iterator[Callable[..., AnyBroker]]:
    """Starts more brokers for one test; what is left running is stopped."""
    started: list[AnyBroker] = []

    def start_one(kind: str, name: str = "", **properties: str) -> AnyBroker:
        directory = tmp_path / (name or kind)
        named = {key.replace("_", "."): value for key, value in properties.items()}
        running = start_broker(kind, directory, {**PROPERTIES, **named})
        started.append(running)
        return running

    yield start_one
    for running in started:
        if running.process is not None and running.process.is_running():
            running.stop()


@pytest.fixture(scope="module", params=SHARE_BROKERS)
def share_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    """A broker with share groups switched on, for the tests of a module."""
    broker = start_share_broker(request.param, tmp_path_factory.mktemp("share"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module", params=["apache", "barnabas"])
def started_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyCluster]:
    """Brokers 1, 2, 3 of Apache Kafka, then of Barnabas, for the tests of a module.

    A module that takes two of three away sets `NEEDS_CONTROLLER`: then there is a broker 0 which
    does for Barnabas what the controller, which always lives, does for Apache Kafka.
    """
    node_ids = (0, *BROKER_IDS) if hasattr(request.module, "NEEDS_CONTROLLER") else BROKER_IDS
    directory = tmp_path_factory.mktemp(f"cluster-{request.param}")
    made: AnyCluster
    if request.param == "apache":
        made = KafkaCluster(directory)
    else:
        made = BarnabasCluster(directory, properties=LIKE_APACHE, node_ids=node_ids)
    with made as running:
        yield running


@pytest.fixture
def cluster(started_cluster: AnyCluster) -> AnyCluster:
    """The same, all brokers running, whatever the test before has left behind."""
    started_cluster.start()
    asyncio.run(_form(started_cluster))
    return started_cluster


async def _form(cluster: AnyCluster) -> None:
    if isinstance(cluster, BarnabasCluster):
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)

"""Brokers for the admin client's tests besides those of all client tests."""

from collections.abc import Iterator

import pytest

from tests.client.admin.secured_kafka import SecuredKafka
from tests.support.client_brokers import ClientBrokers


@pytest.fixture
def barnabas(client_brokers: ClientBrokers) -> str:
    """The address of a Barnabas, for tests of what it does not serve."""
    return client_brokers.bootstrap("barnabas")


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """An Apache Kafka with rights, log-ins and tokens, for tests that are marked `interop`."""
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    with kafka.broker:
        yield kafka

"""The brokers that the client's tests run against, and names that no other test uses."""

import pytest

from tests.support.client_brokers import ClientBrokers
from tests.support.client_fixtures import bootstrap, client_brokers, unique

__all__ = ["apache", "bootstrap", "client_brokers", "unique"]


@pytest.fixture
def apache(client_brokers: ClientBrokers) -> str:
    """The address of an Apache Kafka, for tests that carry the `interop` marker themselves."""
    return client_brokers.bootstrap("apache")

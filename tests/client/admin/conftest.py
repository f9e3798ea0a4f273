"""Brokers for the admin client's tests besides those of all client tests."""

import pytest

from tests.support.client_brokers import ClientBrokers


@pytest.fixture
def barnabas(client_brokers: ClientBrokers) -> str:
    """The address of a Barnabas, for tests of what it does not serve."""
    return client_brokers.bootstrap("barnabas")

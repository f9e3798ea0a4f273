"""Fixtures of tests with our clients: a broker, where it is, and names that nobody else has."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.support.client_brokers import ClientBrokers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def client_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientBrokers]:
    """One broker of each kind for the session, started when it is first needed."""
    brokers = ClientBrokers(tmp_path_factory.mktemp("brokers"))
    yield brokers
    brokers.stop()


@pytest.fixture(params=["barnabas", pytest.param("apache", marks=pytest.mark.interop)])
def bootstrap(request: pytest.FixtureRequest, client_brokers: ClientBrokers) -> str:
    """The address of a broker: each test runs on Barnabas, in `make interop` on Apache Kafka."""
    return client_brokers.bootstrap(request.param)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A function that makes names of topics and groups unlike those of any other test."""

    def name(stem: str) -> str:
        return f"{stem}-{os.getpid()}-{next(_numbers)}"

    return name

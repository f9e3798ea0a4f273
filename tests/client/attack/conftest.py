"""Brokers behind a proxy: they advertise the proxy's port, so that all traffic goes through it."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_brokers import PROPERTIES
from tests.support.faulty_proxy import ALL_FAULTS, Fault, FaultyProxy
from tests.support.processes import free_port


class BehindProxy:
    """A broker process, and proxies in front of it, one at a time."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.proxy_port = free_port()
        self._directory = directory
        self.broker = self._create()
        self.broker.start()

    def _create(self) -> BarnabasProcess | ApacheKafka:
        properties = {
            **PROPERTIES,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.proxy_port}",
        }
        if self.kind == "apache":
            return ApacheKafka(self._directory, properties=properties, heap="512M")
        return BarnabasProcess(self._directory, properties=properties)

    def proxy(
        self,
        rng: random.Random,
        faults: tuple[Fault, ...] = ALL_FAULTS,
        after_bytes_max: int = 200_000,
    ) -> FaultyProxy:
        """A proxy that is not open yet."""
        return FaultyProxy(
            self.proxy_port, self.broker.port, rng, faults=faults, after_bytes_max=after_bytes_max
        )


@pytest.fixture(scope="session")
def behind_proxies(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], BehindProxy]]:
    """One broker of each kind for the session, started when it is first needed."""
    running: dict[str, BehindProxy] = {}

    def behind(kind: str) -> BehindProxy:
        if kind not in running:
            running[kind] = BehindProxy(kind, tmp_path_factory.mktemp("proxied") / kind)
        return running[kind]

    yield behind
    for one in running.values():
        one.broker.stop()


@pytest.fixture(params=["barnabas", pytest.param("apache", marks=pytest.mark.interop)])
def behind_proxy(
    request: pytest.FixtureRequest, behind_proxies: Callable[[str], BehindProxy]
) -> BehindProxy:
    """A broker that is reached through a proxy: Barnabas, in `make interop` Apache Kafka too."""
    return behind_proxies(request.param)

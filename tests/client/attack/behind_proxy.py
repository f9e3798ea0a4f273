"""A client whose connections to the broker a test can disturb."""

import random
from pathlib import Path

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

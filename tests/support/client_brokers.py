"""The brokers of the client's tests: one Barnabas and one Apache Kafka a session, as processes.

Both start when a test asks for them first and are stopped through their own handles.
"""

from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess

PROPERTIES = {
    "auto.create.topics.enable": "true",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # Members that die are missed soon.
    "group.min.session.timeout.ms": "1000",
    # Members of groups that the broker leads hear of a rebalance with their next heartbeat.
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
}
_BARNABAS_PROPERTIES = {**PROPERTIES, "group.consumer.assignment.interval.ms": "100"}


class ClientBrokers:
    """Starts what is asked for, once; `stop` ends it all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, BarnabasProcess | ApacheKafka] = {}

    def bootstrap(self, name: str) -> str:
        """The address of the broker called `barnabas` or `apache`."""
        broker = self._running.get(name)
        if broker is None:
            broker = self._create(name)
            broker.start()
            self._running[name] = broker
        return broker.bootstrap

    def stop(self) -> None:
        """Stop what was started."""
        while self._running:
            _, broker = self._running.popitem()
            broker.stop()

    def _create(self, name: str) -> BarnabasProcess | ApacheKafka:
        directory = self._directory / name
        if name == "apache":
            return ApacheKafka(directory, properties=PROPERTIES, heap="512M")
        return BarnabasProcess(directory, properties=_BARNABAS_PROPERTIES)

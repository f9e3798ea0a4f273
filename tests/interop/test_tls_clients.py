"""Real clients by TLS with certificates of both sides: Java, librdkafka, kcat.

The broker is a process of its own. What is refused is refused in a way that ends the client's
tries: Java's SslAuthenticationException, librdkafka's `_SSL`.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.support.apache_kafka import kafka_jars
from tests.support.barnabas_process import BarnabasProcess
from tests.support.processes import free_port
from tests.support.tls_files import TlsFiles

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]


class Secured:
    """A broker whose clients show certificates, and the certificates."""

    def __init__(self, directory: Path) -> None:
        self.files = TlsFiles(directory / "tls").create("localhost")
        self.address = f"localhost:{free_port()}"
        self.broker = BarnabasProcess(directory / "broker")
        for key in ("listeners", "advertised.listeners"):
            self.broker.properties[key] += f",SSL://{self.address}"
        self.broker.properties.update(
            {
                "barnabas.ssl.certificate.file": str(self.files.broker_certificate),
                "barnabas.ssl.key.file": str(self.files.broker_key),
                "ssl.truststore.location": str(self.files.authority),
                "ssl.client.auth": "required",
            }
        )
        self.client_store = directory / "client.pem"
        self.client_store.write_bytes(
            self.files.client_key.read_bytes() + self.files.client_certificate.read_bytes()
        )

    def librdkafka(self, *, authority: Path | None = None) -> dict[str, str]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority or self.files.authority),
            "ssl.certificate.location": str(self.files.client_certificate),
            "ssl.key.location": str(self.files.client_key),
        }

    def java(self, *, shows: bool = True) -> list[str]:
        own = ["ssl.keystore.type=PEM", f"ssl.keystore.location={self.client_store}"]
        return [
            f"bootstrap.servers={self.address}",
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.files.authority}",
            *(own if shows else []),
        ]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("secured"))
    secured.broker.start()
    try:
        yield secured
    finally:
        secured.broker.stop()


def test_librdkafka_produces_and_consumes(secured: Secured) -> None:
    """SEC-1, SEC-3."""
    producer = Producer(secured.librdkafka())
    failures: list[object] = []
    for number in range(1000):
        producer.produce(
            "librdkafka", b"%d" % number, callback=lambda error, _: error and failures.append(error)
        )
    assert producer.flush(60) == 0
    assert failures == []
    consumer = Consumer({**secured.librdkafka(), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    read = []
    while len(read) < 1000:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        read.append(message.value())
    consumer.close()
    assert read == [b"%d" % number for number in range(1000)]


def test_librdkafka_does_not_take_a_broker_of_another_authority(secured: Secured) -> None:
    """SEC-7."""
    stranger = AdminClient(secured.librdkafka(authority=secured.files.other_authority))
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=5)


def java_producer(secured: Secured, *, shows: bool, records: int) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            *("java", "-Xmx256m", "-cp", f"{kafka_jars()}/*"),
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "java", "--num-records", str(records), "--record-size", "1000"),
            *("--throughput", "-1", "--producer-props", "max.block.ms=20000"),
            *secured.java(shows=shows),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_java_produces_with_its_certificate(secured: Secured) -> None:
    """SEC-1, SEC-3: PEM stores on both sides."""
    done = java_producer(secured, shows=True, records=5000)
    assert "5000 records sent" in done.stdout, done.stdout + done.stderr


def test_java_is_told_that_it_lacks_a_certificate(secured: Secured) -> None:
    """SEC-8: an alert, and thus an exception that is not tried again."""
    done = java_producer(secured, shows=False, records=10)
    assert "SslAuthenticationException" in done.stdout + done.stderr

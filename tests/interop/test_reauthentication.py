"""Log-ins that end while a client works: librdkafka and Java log in again on their connections."""

import asyncio
from pathlib import Path

import pytest

from tests.support.apache_kafka import kafka_jars
from tests.support.in_process_broker import running_broker
from tests.support.sasl_brokers import LISTENERS, port_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LIFETIME_MS = 2_000
_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def produce_by_librdkafka(port: int, seconds: float) -> list[object]:
    """What went wrong while records were produced."""
    from time import monotonic

    from confluent_kafka import Producer

    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "secret",
            "error_cb": errors.append,
        }
    )
    end = monotonic() + seconds
    while monotonic() < end:
        producer.produce(
            "t", b"x", on_delivery=lambda error, _: errors.append(error) if error else None
        )
        producer.poll(0.05)
    assert producer.flush(10) == 0
    return errors


def test_clients_log_in_again_without_a_failed_request(tmp_path: Path) -> None:
    """SEC-30: none is cut off, and none of their log-ins fails."""
    users = tmp_path / "users"
    users.write_text("admin=secret\n")
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={_JAAS} username="admin" password="secret";\n'
    )
    properties = LISTENERS | {
        "barnabas.bootstrap.users.file": str(users),
        "listener.name.sasl.connections.max.reauth.ms": str(LIFETIME_MS),
    }

    async def run() -> None:
        async with running_broker(tmp_path / "data", **properties) as server:
            port, metrics = port_of(server), server.logins.metrics
            errors = await asyncio.to_thread(produce_by_librdkafka, port, 3 * LIFETIME_MS / 1000)
            assert errors == []
            of_librdkafka = metrics.reauthentications["SCRAM-SHA-512"]
            assert of_librdkafka > 0
            java = await asyncio.create_subprocess_exec(
                *("java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars()}/*"),
                "org.apache.kafka.tools.ProducerPerformance",
                *("--topic", "t", "--num-records", "600", "--record-size", "10"),
                *("--throughput", "100", "--producer.config", str(settings)),
                *("--producer-props", f"bootstrap.servers=127.0.0.1:{port}"),
            )
            async with asyncio.timeout(120):
                assert await java.wait() == 0
            assert metrics.reauthentications["SCRAM-SHA-512"] > of_librdkafka
            assert not metrics.expired
            assert not metrics.failures
            assert not metrics.reauthentication_failures

    asyncio.run(run())

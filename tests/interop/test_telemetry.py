"""Clients of Java and librdkafka push their metrics by their own defaults, and a broker shows them.

What they push, how it is compressed and encoded, and when, is theirs; nothing is switched on.
"""

import asyncio
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from tests.interop.started_brokers import AnyBroker
from tests.support.barnabas_process import BarnabasProcess
from tests.support.client_programs import INTEROP
from tests.support.java_tools import compile_java, java_command, maven_jars
from tests.support.kafka_cluster import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

JAVA_VERSIONS = ("3.7.2", "4.1.1")
INTERVAL_MS = 1000
VALUE, TOTAL = "barnabas_client_reported_value", "barnabas_client_reported_total"


@pytest.fixture
def subscribed(broker: AnyBroker) -> BarnabasProcess:
    """A broker with a subscription to all metrics of everybody."""
    if not isinstance(broker, BarnabasProcess):
        pytest.skip("Apache Kafka shows nothing of it without a plug-in")

    async def subscribe() -> None:
        async with Admin(broker.bootstrap) as admin:
            changes = [
                ConfigChange.set("metrics", "*"),
                ConfigChange.set("interval.ms", str(INTERVAL_MS)),
            ]
            (await admin.configs.alter({ConfigResource.client_metrics("all"): changes})).unwrap()

    asyncio.run(subscribe())
    return broker


def new_topic(broker: AnyBroker, name: str) -> str:
    async def create() -> None:
        async with Admin(broker.bootstrap) as admin:
            (await admin.topics.create([NewTopic(name=name, partition_count=2)])).unwrap()

    asyncio.run(create())
    return name


def page(broker: BarnabasProcess) -> list[Sample]:
    url = f"http://{broker.host}:{broker.admin_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as response:
        text = response.read().decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def shown(broker: BarnabasProcess, client_id: str) -> dict[tuple[str, str], list[Sample]]:
    """The samples of a client by family and metric."""
    found: dict[tuple[str, str], list[Sample]] = {}
    for sample in page(broker):
        if sample.labels.get("client_id") == client_id:
            found.setdefault((sample.name, sample.labels["metric"]), []).append(sample)
    return found


def awaited(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    asyncio.run(until(holds))


@contextmanager
def java_clients(
    version: str, bootstrap: str, topic: str, prefix: str
) -> Iterator[subprocess.Popen[str]]:
    """A producer and a consumer at work; they end in an orderly way."""
    jars = maven_jars(
        f"kafka-clients-{version}",
        [f"org.apache.kafka:kafka-clients:{version}", "org.slf4j:slf4j-nop:1.7.36"],
    )
    classes = compile_java("telemetry-clients", [INTEROP / "java" / "TelemetryClients.java"], jars)
    command = java_command([classes, jars], "TelemetryClients", [bootstrap, topic, prefix])
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_clients_of_java_are_shown(version: str, subscribed: BarnabasProcess) -> None:
    """TEL-2, TEL-4, TEL-6: under the instance ids that they know, again and again."""
    topic, prefix = new_topic(subscribed, f"java-{version}"), f"java-{version}"
    with java_clients(version, subscribed.bootstrap, topic, prefix) as process:
        assert process.stdout is not None
        ids = dict(process.stdout.readline().split() for _ in range(2))
        sent = (TOTAL, "org.apache.kafka.producer.record.send.total")
        read = (TOTAL, "org.apache.kafka.consumer.fetch.manager.records.consumed.total")

        def counted(client: str, key: tuple[str, str]) -> float:
            samples = shown(subscribed, f"{prefix}-{client}").get(key, [])
            assert all(each.labels["client_instance_id"] == ids[client] for each in samples)
            assert all(
                each.labels["client_software_name"] == "apache-kafka-java" for each in samples
            )
            return sum(each.value for each in samples if not each.labels["topic"])

        def grows(client: str, key: tuple[str, str]) -> None:
            before = counted(client, key)
            awaited(lambda: counted(client, key) > before)

        for client, key in (("producer", sent), ("consumer", read)) * 2:
            grows(client, key)
        gauges = shown(subscribed, f"{prefix}-producer")
        assert any(family == VALUE for family, _ in gauges)
        assert len(gauges) > 20
        assert process.stdin is not None
        process.stdin.close()
        _, produced, consumed = process.stdout.readline().split()
    # Java's consumer tells everything with the push by which it ends; its producer has none.
    assert counted("consumer", read) == int(consumed)
    assert counted("producer", sent) <= int(produced)


def test_librdkafka_is_shown(subscribed: BarnabasProcess) -> None:
    """TEL-2, TEL-4, TEL-6: a producer and a consumer of librdkafka."""
    topic = new_topic(subscribed, "librdkafka")
    common = {"bootstrap.servers": subscribed.bootstrap}
    producer = Producer({**common, "client.id": "rd-producer"})
    consumer = Consumer(
        {**common, "client.id": "rd-consumer", "group.id": "rd", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])

    def is_shown() -> bool:
        producer.produce(topic, b"a value")
        producer.poll(0.01)
        consumer.poll(0.05)
        return all(shown(subscribed, name) for name in ("rd-producer", "rd-consumer"))

    awaited(is_shown)
    samples = [each for group in shown(subscribed, "rd-producer").values() for each in group]
    assert {each.labels["client_software_name"] for each in samples} <= {
        "librdkafka",
        "confluent-kafka-python",
    }
    producer.flush(10)
    consumer.close()


def test_no_client_was_refused(subscribed: BarnabasProcess) -> None:
    """TEL-3, TEL-4: whatever real clients do by themselves is in time and can be read."""
    errors = {
        sample.labels["error"]: sample.value
        for sample in page(subscribed)
        if sample.name == "barnabas_client_telemetry_errors_total"
    }
    assert errors == {}


def test_a_client_that_must_not_push_does_not(subscribed: BarnabasProcess) -> None:
    """TEL-6: one that has it switched off is not shown, and works."""
    topic = new_topic(subscribed, "silent")
    producer = Producer(
        {
            "bootstrap.servers": subscribed.bootstrap,
            "client.id": "silent",
            "enable.metrics.push": "false",
        }
    )
    producer.produce(topic, b"a value")
    assert producer.flush(30) == 0
    assert shown(subscribed, "silent") == {}

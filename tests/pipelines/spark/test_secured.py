"""Spark with a mounted client.properties: it reads and writes, and shows the password nowhere."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client import Admin, Producer
from barnabas_client.admin import NewTopic
from tests.pipelines.spark import secured_reading
from tests.support.secure_kafka import PASSWORD, USERNAME, SecureKafka

pytestmark = [pytest.mark.spark, pytest.mark.interop]
_SECONDS_MAX = 300
RECORDS = 3


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    broker = SecureKafka(tmp_path_factory.mktemp("secure"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


async def fill(kafka: SecureKafka, topic: str) -> None:
    async with Admin(kafka.address("PLAINTEXT")) as admin:
        topics = [NewTopic(name=name, partition_count=1) for name in (topic, f"{topic}-copy")]
        (await admin.topics.create(topics)).unwrap()
    async with Producer(kafka.address("PLAINTEXT")) as producer:
        for number in range(RECORDS):
            await producer.send(topic, str(number).encode())


@pytest.mark.parametrize("via", ["python", "connector"])
def test_a_password_is_in_no_page_and_no_event_log(
    kafka: SecureKafka, tmp_path: Path, via: str
) -> None:
    """SEC-103, SEC-114: executors log in with what the driver has read from the file."""
    topic = f"secured-{via}"
    asyncio.run(fill(kafka, topic))
    properties = tmp_path / "client.properties"
    key = kafka.tls.client_key.read_text()
    inline = "\\n\\\n".join(key.splitlines())
    chain = "\\n\\\n".join(kafka.tls.client_certificate.read_text().splitlines())
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USERNAME}" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.tls.authority}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.key={inline}\n"
        f"ssl.keystore.certificate.chain={chain}\n"
    )
    (tmp_path / "events").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, secured_reading.__file__, via, str(properties)),
            *(kafka.address("SASL_SSL"), topic, str(tmp_path)),
        ],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert f"RECORDS {RECORDS}\n" in done.stdout, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    events = [one for one in (tmp_path / "events").rglob("*") if one.is_file()]
    logged = "".join(one.read_text(errors="replace") for one in events)
    assert "SparkListenerSQLExecutionStart" in logged
    assert "== " in done.stdout and "/StreamingQuery/" in done.stdout
    secrets = (PASSWORD, *(line for line in key.splitlines() if not line.startswith("-")))
    for where, text in (("log", logged), ("pages", done.stdout), ("errors", done.stderr)):
        for secret in secrets:
            assert secret not in text, f"{where}: {text[text.index(secret) - 300 :][:400]}"

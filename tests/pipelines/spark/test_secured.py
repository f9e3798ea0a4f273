"""Spark with a mounted client.properties: it reads and writes, and shows the password nowhere."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas_client import Admin, Producer, settings_from_file
from barnabas_client.admin import NewTopic
from barnabas_protocol.settings.properties import parse_properties
from tests.pipelines.spark import secured_reading
from tests.support.secure_dev import SecureDev

pytestmark = pytest.mark.spark
_SECONDS_MAX = 300
RECORDS = 3


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureDev]:
    running = SecureDev(tmp_path_factory.mktemp("secure"))
    try:
        running.start()
        yield running
    finally:
        running.stop()


async def fill(secure: SecureDev, topic: str) -> None:
    settings = settings_from_file(secure.folder / "client.properties")
    async with Admin(**settings) as admin:
        topics = [NewTopic(name=name, partition_count=1) for name in (topic, f"{topic}-copy")]
        (await admin.topics.create(topics)).unwrap()
    async with Producer(**settings) as producer:
        for number in range(RECORDS):
            await producer.send(topic, str(number).encode())


@pytest.mark.parametrize("via", ["python", "connector"])
def test_a_password_is_in_no_page_and_no_event_log(
    secure: SecureDev, tmp_path: Path, via: str
) -> None:
    """SEC-103, SEC-114: executors log in with what the driver has read from the file."""
    topic = f"secured-{via}"
    asyncio.run(fill(secure, topic))
    # The broker's own will do for a client: what counts is that the key is there.
    pair = (secure.folder / "broker-0.pem").read_text()
    key, mark, chain = pair.partition("-----BEGIN CERTIFICATE")
    properties = tmp_path / "client.properties"
    properties.write_text(
        (secure.folder / "client.properties").read_text()
        + f"ssl.keystore.type=PEM\nssl.keystore.key={in_one_line(key)}\n"
        + f"ssl.keystore.certificate.chain={in_one_line(mark + chain)}\n"
    )
    password = parse_properties((secure.folder / "librdkafka.conf").read_text())["sasl.password"]
    (tmp_path / "events").mkdir()
    done = subprocess.run(
        [
            *(sys.executable, secured_reading.__file__, via, str(properties)),
            *(secure.bootstrap, topic, str(tmp_path)),
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
    secrets = (password, *(line for line in key.splitlines() if not line.startswith("-")))
    for where, text in (("log", logged), ("pages", done.stdout), ("errors", done.stderr)):
        for secret in secrets:
            assert secret not in text, f"{where}: {text[text.index(secret) - 300 :][:400]}"


def in_one_line(text: str) -> str:
    """As a properties file has it."""
    return "\\n".join(text.strip().splitlines())

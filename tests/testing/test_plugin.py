"""The fixtures of the pytest plugin, in a pytest of their own, also beside one another by xdist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def pytest_run(directory: Path, *arguments: str) -> str:
    """What a pytest prints that knows nothing of ours but the plugin."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "barnabas_testing.plugin", *arguments],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return result.stdout + result.stderr


def test_each_worker_has_its_broker_and_each_test_its_topic(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nbarnabas_settings =\n    num.partitions=3\n")
    (tmp_path / "test_it.py").write_text(
        "import asyncio, pytest\n"
        "from barnabas_client.admin import Admin\n"
        "async def partitions(address, topic):\n"
        "    async with Admin(address) as admin:\n"
        "        from barnabas_client.admin import NewTopic\n"
        "        (await admin.topics.create([NewTopic(name=topic + '-3')])).unwrap()\n"
        "        found = (await admin.topics.describe([topic, topic + '-3'])).unwrap()\n"
        "        return [len(one.partitions) for one in found.values()]\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_topic(barnabas_broker, barnabas_topic, number):\n"
        "    address = barnabas_broker.bootstrap_servers\n"
        "    assert asyncio.run(partitions(address, barnabas_topic)) == [1, 3]\n"
        "    with open('seen', 'a') as seen: print(address, barnabas_topic, file=seen)\n"
    )
    printed = pytest_run(tmp_path, "-p", "xdist", "-n", "2", "--dist", "load")
    assert "4 passed" in printed, printed
    seen = [line.split() for line in (tmp_path / "seen").read_text().splitlines()]
    assert len({address for address, _ in seen}) == 2
    assert len({topic for _, topic in seen}) == 4


SECURE = "[pytest]\nbarnabas_secure = true\n"


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("test_what_is_sent_arrives", "[pytest]\n"),
        ("test_records_survive_a_crash", "[pytest]\n"),
        ("test_a_user_without_the_right_is_refused", SECURE),
    ],
)
def test_the_tests_of_the_page_pass_as_they_are_written(
    tmp_path: Path, name: str, configuration: str
) -> None:
    program = program_of_the_page(name)
    if "confluent_kafka" in program:
        pytest.importorskip("confluent_kafka")
    (tmp_path / "pytest.ini").write_text(configuration)
    (tmp_path / "test_page.py").write_text(program)
    printed = pytest_run(tmp_path, "test_page.py")
    assert "1 passed" in printed, printed


def test_secure_brokers_beside_one_another_have_settings_and_users_of_their_own(
    tmp_path: Path,
) -> None:
    """Each worker's broker has another authority and password: those of one open no other."""
    (tmp_path / "pytest.ini").write_text(SECURE)
    (tmp_path / "test_it.py").write_text(
        "import asyncio, pytest\n"
        "from confluent_kafka import Producer\n"
        "from barnabas_client.admin import Admin\n"
        "async def end(broker, topic):\n"
        "    async with Admin(**broker.client_settings) as admin:\n"
        "        described = (await admin.topics.describe([topic])).unwrap()\n"
        "        return len(described[topic].partitions)\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_topic(barnabas_broker, barnabas_topic, number):\n"
        "    settings = barnabas_broker.librdkafka_settings\n"
        "    producer = Producer(settings)\n"
        "    producer.produce(barnabas_topic, b'hello')\n"
        "    assert producer.flush(30) == 0\n"
        "    assert asyncio.run(end(barnabas_broker, barnabas_topic)) == 1\n"
        "    with open('seen', 'a') as seen:\n"
        "        print(settings['bootstrap.servers'], settings['sasl.password'], file=seen)\n"
    )
    pytest.importorskip("confluent_kafka")
    printed = pytest_run(tmp_path, "-p", "xdist", "-n", "2", "--dist", "load")
    assert "4 passed" in printed, printed
    seen = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    assert len({address for address, _ in seen}) == 2
    assert len({password for _, password in seen}) == 2


def program_of_the_page(name: str) -> str:
    programs: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (program,) = (text for text in programs if f"def {name}(" in text)
    return program


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (program,) = (text for text in programs if "with Broker(" in text)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=110, check=True
    )
    assert len(result.stdout.split(",")) == 3

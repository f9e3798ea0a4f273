"""`barnabas_testing.Broker`: starts on free ports, dies and comes back, and is gone at the end."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas_client import BarnabasError
from barnabas_client.admin import Admin
from barnabas_testing import Broker, BrokerError
from tests.support.in_process_broker import DEADLINE_SECONDS, eventually
from tests.support.waiting import wait_until


async def topics_after(broker: Broker, create: str | None = None) -> list[str]:
    async with Admin(**broker.client_settings) as admin:
        if create is not None:
            from barnabas_client.admin import NewTopic

            (await admin.topics.create([NewTopic(name=create)])).unwrap()
        found: list[str] = []

        async def are_listed() -> bool:
            """By whichever broker is asked: each hears of a new topic in its own time."""
            found[:] = [listing.name for listing in await admin.topics.list()]
            return create is None or create in found

        await eventually(are_listed)
        return found


async def topics_at(address: str) -> list[str]:
    async with Admin(address, request_timeout_ms=5_000) as admin:
        return [listing.name for listing in await admin.topics.list()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_comes_back_with_its_data_at_its_port_and_leaves_nothing() -> None:
    with Broker(settings={"num.partitions": "2"}) as broker:
        address, data = broker.bootstrap_servers, broker.data
        assert asyncio.run(topics_after(broker, "kept")) == ["kept"]
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert broker.bootstrap_servers == address
        assert asyncio.run(topics_after(broker)) == ["kept"]
        broker.restart()
        assert asyncio.run(topics_after(broker)) == ["kept"]
    assert not broker.is_running
    assert not data.exists()


def test_several_are_a_cluster_and_a_given_folder_stays(tmp_path: Path) -> None:
    with Broker(brokers=3, data=tmp_path / "data") as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        broker.kill()
        broker.start()
        assert asyncio.run(topics_after(broker, "wide")) == ["wide"]
    assert (tmp_path / "data" / "broker-2").is_dir()


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_secure_one_lets_in_who_has_its_settings(brokers: int) -> None:
    """At ports that were not known beforehand, and after a restart with the same password."""
    with Broker(secure=True, brokers=brokers) as broker:
        assert asyncio.run(topics_after(broker, "kept")) == ["kept"]
        before = broker.client_properties
        broker.restart()
        assert broker.client_properties == before
        assert before["bootstrap.servers"] == broker.bootstrap_servers
        assert asyncio.run(topics_after(broker)) == ["kept"]
        with pytest.raises(BarnabasError, match="speaks TLS"):
            asyncio.run(topics_at(broker.bootstrap_servers))


def test_settings_for_clients_are_there_for_a_plain_one_as_well() -> None:
    """A test that takes them there runs on both kinds."""
    with Broker() as broker:
        address = broker.bootstrap_servers
        assert broker.client_properties == {"bootstrap.servers": address}
        assert broker.librdkafka_settings == {"bootstrap.servers": address}
        assert broker.kafka_python_settings == {"bootstrap_servers": [address]}
        assert broker.client_settings == {"bootstrap_servers": address}
    with pytest.raises(BrokerError, match="was not started"):
        _ = Broker(secure=True).librdkafka_settings


def test_one_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BrokerError, match="is a file"):
        Broker(data=tmp_path / "file").start()
    with pytest.raises(BrokerError, match="was not started"):
        _ = Broker().bootstrap_servers


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """Nobody is left to stop it: the end of its input does."""
    program = (
        "import signal, sys; from barnabas_testing import Broker;"
        "broker = Broker(data=sys.argv[1]);"
        "broker.start(); print(broker.process_id, flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert is_alive(broker)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not is_alive(broker), DEADLINE_SECONDS, lambda: f"{broker} is there")

"""A broker process whose arbiter is a key of a real etcd: restarts, kills, the store away."""

import asyncio
import contextlib
import urllib.request
from pathlib import Path

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterRecord
from barnabas_broker.arbiter.etcd import EtcdArbiter, EtcdSettings
from barnabas_client import Consumer, Producer, TopicPartition
from tests.support.barnabas_process import BarnabasProcess
from tests.support.etcd_process import EtcdProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

KEY = "/messages/arbiter"
ROUND = 500


def broker_on(etcd: EtcdProcess, directory: Path) -> BarnabasProcess:
    return BarnabasProcess(
        directory,
        properties={
            "arbiter.backend": "etcd",
            "arbiter.etcd.endpoints": etcd.endpoint,
            "arbiter.etcd.key": KEY,
            "arbiter.poll.interval.ms": "50",
            "arbiter.request.timeout.ms": "1000",
        },
    )


def start(broker: BarnabasProcess) -> None:
    broker.start()
    wait_until_ready(broker)


def wait_until_ready(broker: BarnabasProcess) -> None:
    """Until it leads: its port opens earlier."""
    assert broker.process is not None
    wait_until(lambda: is_ready(broker), 60, broker.process.log_tail)


def is_ready(broker: BarnabasProcess) -> bool:
    assert broker.process is not None
    assert broker.process.is_running(), broker.process.log_tail()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.admin_port}/ready", timeout=5):
            return True
    except OSError:
        return False


def ends(broker: BarnabasProcess) -> str:
    """Start it where it cannot run; returns what it printed."""
    with contextlib.suppress(RuntimeError):  # the port may open before it gives up
        broker.start()
    assert broker.process is not None
    assert broker.process.process.wait(60) == 1
    broker.kill()  # closes the file of what it printed
    return broker.process.log_tail()


async def record_in(etcd: EtcdProcess) -> ArbiterRecord:
    client = EtcdArbiter(EtcdSettings((etcd.endpoint,), KEY))
    try:
        record = (await client.read()).record
    finally:
        await client.close()
    assert record is not None
    return record


async def produce(producer: Producer, topic: str, first: int) -> None:
    """Produce a round of records and wait until each is acknowledged."""
    sent = [producer.send(topic, str(first + n).encode()) for n in range(ROUND)]
    await asyncio.gather(*sent)


async def contents(bootstrap: str, topic: str, count: int) -> list[int]:
    """The first records of the topic's only partition."""
    values: list[int] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(60):
            while len(values) < count:
                values += [int(record.value) for record in await consumer.poll(timeout_ms=1000)]
    return values


def test_each_start_takes_a_new_controller_epoch(tmp_path: Path) -> None:
    """Rule 1: after a clean stop and after a kill."""
    with EtcdProcess(tmp_path / "etcd") as etcd:
        broker = broker_on(etcd, tmp_path / "broker")
        for epoch in (1, 2, 3):
            start(broker)
            record = asyncio.run(record_in(etcd))
            assert record.controller_epoch == epoch
            assert record.leader is not None
            assert record.leader[:3] == (1, "127.0.0.1", broker.replication_port)
            assert [member.node_id for member in record.members] == [1]
            if epoch == 2:
                broker.kill()
            else:
                assert broker.stop() == 0


def test_data_goes_on_while_etcd_is_away(tmp_path: Path) -> None:
    """CTL-13: etcd is killed under load; nothing fails, and new topics are made too."""

    async def run(etcd: EtcdProcess, broker: BarnabasProcess) -> None:
        async with Producer(broker.bootstrap) as producer:
            await produce(producer, "before", 0)
            loaded = asyncio.create_task(produce(producer, "before", ROUND))
            etcd.kill()
            await loaded
            await produce(producer, "before", 2 * ROUND)
            await produce(producer, "meanwhile", 0)
            etcd.start()
            await produce(producer, "before", 3 * ROUND)

    with EtcdProcess(tmp_path / "etcd") as etcd:
        broker = broker_on(etcd, tmp_path / "broker")
        with broker:
            wait_until_ready(broker)
            asyncio.run(run(etcd, broker))
            assert asyncio.run(record_in(etcd)).controller_epoch == 1
            broker.kill()
            start(broker)
            assert asyncio.run(record_in(etcd)).controller_epoch == 2
            for topic, count in (("before", 4 * ROUND), ("meanwhile", ROUND)):
                values = asyncio.run(contents(broker.bootstrap, topic, count))
                assert values == list(range(count))


def test_broker_without_its_store_waits_for_it(tmp_path: Path) -> None:
    """CTL-7, CTL-13: nobody leads by its own word; it says so once, and serves with etcd."""
    with EtcdProcess(tmp_path / "etcd") as etcd:
        broker = broker_on(etcd, tmp_path / "broker")
        etcd.kill()
        with broker:
            process = broker.process
            assert process is not None
            wait_until(lambda: "the arbiter cannot be read" in process.log_tail(), 60, str)
            assert not is_ready(broker)
            etcd.start()
            wait_until_ready(broker)
            assert process.log_tail().count("the arbiter cannot be read") == 1
            assert "Traceback" not in process.log_tail()


def test_broker_of_another_cluster_leaves_the_record_alone(tmp_path: Path) -> None:
    """Two clusters that were given one key by mistake."""
    with EtcdProcess(tmp_path / "etcd") as etcd, broker_on(etcd, tmp_path / "one") as one:
        wait_until_ready(one)
        mine = asyncio.run(record_in(etcd))
        other = broker_on(etcd, tmp_path / "other")
        other.properties["cluster.id"] = "QW5vdGhlckNsdXN0ZXIwMQ"
        assert "the arbiter's record is of cluster" in ends(other)
        assert asyncio.run(record_in(etcd))._replace(renewed_ms=0) == mine._replace(renewed_ms=0)

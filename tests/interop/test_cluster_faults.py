"""Three real brokers on hosts of their own, two real producers, and every fault that we promise.

A Java producer with its defaults and librdkafka, both idempotent with acks=all, number their
records. Meanwhile brokers are killed, frozen, cut off from the network, run out of disk, and the
arbiter's store (a real etcd) goes away. In the end every acknowledged record is there once, in
order and where it was acknowledged, and the replicas of each partition are equal byte by byte.

`BARNABAS_FAULTS` is the number of faults, drawn by `BARNABAS_SEED`, which is printed.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.interop.producer_loads import Load, java_load, librdkafka_load, load_violations
from tests.support.barnabas_cluster import BarnabasCluster, pause, resume
from tests.support.etcd_process import EtcdProcess
from tests.support.kafka_cluster import until
from tests.support.kafka_tools import ToolCall, run_tools
from tests.support.network_namespaces import NetworkNamespaces, are_possible
from tests.support.small_disks import fill_up, small_disks
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

FAULTS = int(os.environ.get("BARNABAS_FAULTS", "10"))
PARTITIONS = 4
TOPICS = ("from-java", "from-librdkafka")
# A fault lasts until so many more records were acknowledged to each load.
STEP = 400
SMALL_DISK_MEBIBYTES = 400


class Stage:
    """The cluster with its hosts, store and loads, and the faults it can be given."""

    def __init__(self, hosts: NetworkNamespaces, etcd: EtcdProcess, directory: Path) -> None:
        self.hosts = hosts
        self.etcd = etcd
        self.directory = directory
        self.loads: list[Load] = []
        self.cluster = BarnabasCluster(
            directory / "cluster",
            properties={
                "arbiter.backend": "etcd",
                "arbiter.etcd.endpoints": f"http://{hosts.gateway}:{etcd.port}",
                "arbiter.request.timeout.ms": "1000",
                "log.segment.bytes": "4194304",
            },
            hosts=hosts,
        )

    def run(self, faults: int, randomness: random.Random) -> list[str]:
        """The faults, one after the other, each mended before the next; returns their names."""
        kinds: list[Callable[[int], None]] = [
            self.kill_broker,
            self.freeze_broker,
            self.cut_off_broker,
            self.kill_store,
            self.fill_disk,
        ]
        done = []
        for number in range(faults):
            kind = kinds[number % len(kinds)]
            victim = randomness.randrange(3)
            done.append(f"{kind.__name__} {victim}")
            print(done[-1], flush=True)
            kind(victim)
            self.until_mended()
        return done

    def kill_broker(self, victim: int) -> None:
        """Kill -9, and start it again."""
        broker = self.cluster.brokers[victim]
        broker.kill()
        self.go_on()
        broker.start()

    def freeze_broker(self, victim: int) -> None:
        """SIGSTOP for longer than its session lasts: it wakes up as one that is fenced."""
        broker = self.cluster.brokers[victim]
        pause(broker)
        try:
            self.until_missed(victim)
            self.go_on()
        finally:
            resume(broker)

    def cut_off_broker(self, victim: int) -> None:
        """No packet comes or goes: clients and brokers, and the store, are out of its reach."""
        self.hosts.cut_off(victim)
        try:
            self.until_missed(victim)
            self.go_on()
        finally:
            self.hosts.join(victim)

    def kill_store(self, victim: int) -> None:
        """CTL-13: without the store, everything but failover of the controller goes on."""
        assert self.etcd.process is not None
        self.etcd.process.kill()
        self.go_on()
        self.etcd.start()

    def fill_disk(self, victim: int) -> None:
        """VOL-4: a broker whose disk is full stays, others lead, and it ends with room again."""
        broker = self.cluster.brokers[victim]
        data = broker.data_directory
        filler = data / "filler"
        fill_up(data, filler)
        assert broker.process is not None
        process = broker.process

        def guard() -> str:
            return str(broker.status()["log_directories"][0]["guard"])

        wait_until(lambda: guard() in ("FULL", "CRITICAL"), 120, self.state)
        self.go_on()
        assert process.is_running()
        filler.unlink()
        wait_until(lambda: guard() == "ENOUGH", 120, self.state)

    def go_on(self) -> None:
        """Every load has more records acknowledged although the fault lasts."""
        wanted = {load.topic: load.count + STEP for load in self.loads}

        def have_gone_on() -> bool:
            for load in self.loads:
                load.check()
            return all(load.count >= wanted[load.topic] for load in self.loads)

        wait_until(have_gone_on, 90, self.state)

    def until_missed(self, victim: int) -> None:
        """The others have fenced it: a fault shorter than the session would be another one."""
        others = [
            one.bootstrap for node_id, one in self.cluster.brokers.items() if node_id != victim
        ]

        async def is_missed(admin: Admin) -> bool:
            brokers = (await admin.cluster.describe()).brokers
            return victim not in [one.node_id for one in brokers if not one.is_fenced]

        async def wait() -> None:
            async with Admin(others) as admin:
                await until(lambda: is_missed(admin))

        asyncio.run(wait())

    def until_mended(self) -> None:
        """Everything is in sync again and the loads go on."""

        async def wait() -> None:
            async with Admin(self.cluster.bootstrap) as admin:
                await self.cluster.until_formed(admin)
                await self.cluster.until_in_sync(admin, TOPICS)

        asyncio.run(wait())
        wanted = {load.topic: load.count + STEP for load in self.loads}
        wait_until(
            lambda: all(load.count >= wanted[load.topic] for load in self.loads), 90, self.state
        )

    def state(self) -> str:
        counts = ", ".join(f"{load.topic}: {load.count}" for load in self.loads)
        return f"{counts}\n{self.cluster.logs()}"


@pytest.mark.skipif(not are_possible(), reason="needs root and network namespaces")
def test_no_fault_takes_moves_or_doubles_what_was_acknowledged(tmp_path: Path) -> None:
    """REP-18, REP-19, CTL-13, LOG-11: the promise of acks=all on three replicas."""
    seed = int(os.environ.get("BARNABAS_SEED", str(time.time_ns() % 10**6)))
    print(f"seed {seed}")
    etcd = EtcdProcess(tmp_path / "etcd", listen_on="0.0.0.0")
    folders = [tmp_path / "cluster" / str(node_id) / "data" for node_id in range(3)]
    with NetworkNamespaces(3) as hosts, small_disks(folders, SMALL_DISK_MEBIBYTES):
        stage = Stage(hosts, etcd, tmp_path)
        etcd.start()
        try:
            with stage.cluster:
                _create_topics(stage.cluster)
                bootstrap = stage.cluster.bootstrap
                stage.loads.append(
                    java_load(bootstrap, TOPICS[0], PARTITIONS, tmp_path / "java.txt")
                )
                stage.loads.append(
                    librdkafka_load(bootstrap, TOPICS[1], PARTITIONS, tmp_path / "rd.txt")
                )
                stage.until_mended()
                stage.run(FAULTS, random.Random(seed))
                for load in stage.loads:
                    load.end()
                stage.loads, loads = [], stage.loads
                stage.until_mended()
                for load in loads:
                    problems = load_violations(bootstrap, load, tmp_path)
                    assert not problems, f"{load.topic}: {len(problems)}: {problems[:20]}"
            _check_replicas(stage.cluster, tmp_path)
        finally:
            for load in stage.loads:
                load.kill()
            assert etcd.process is not None
            etcd.process.kill()
    total = sum(load.count for load in loads)
    print(f"{FAULTS} faults, {total} records acknowledged, none lost, doubled or moved")


def _create_topics(cluster: BarnabasCluster) -> None:
    async def create() -> None:
        async with Admin(cluster.bootstrap) as admin:
            await cluster.until_formed(admin)
            new = [
                NewTopic(name=topic, partition_count=PARTITIONS, replication_factor=3)
                for topic in TOPICS
            ]
            await cluster.create_topics(admin, *new)

    asyncio.run(create())


def _check_replicas(cluster: BarnabasCluster, directory: Path) -> None:
    """All copies of a partition hold the same bytes, and Kafka's own tool reads them."""
    calls = []
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            copies = {}
            for node_id, broker in cluster.brokers.items():
                files = sorted((broker.data_directory / f"{topic}-{partition}").glob("*.log"))
                copies[node_id] = b"".join(file.read_bytes() for file in files)
                names = ",".join(str(file) for file in files)
                calls.append(ToolCall("dump-log", ("--files", names, "--deep-iteration")))
            sizes = {node_id: len(data) for node_id, data in copies.items()}
            assert len(set(copies.values())) == 1, f"{topic}-{partition} differs: {sizes}"
    results = run_tools(calls, directory / "dumps", timeout_seconds=300)
    dumps = [result.output.split("baseOffset", 1)[-1] for result in results]
    assert all(result.exit_code == 0 for result in results)
    for first in range(0, len(dumps), 3):
        offsets = [_batches(dump) for dump in dumps[first : first + 3]]
        assert offsets[0] and offsets[0] == offsets[1] == offsets[2]


def _batches(dump: str) -> list[str]:
    """The batches as the tool prints them, without their places in the files."""
    lines = [line for line in dump.splitlines() if "lastOffset" in line]
    return [" ".join(word for word in line.split("position")[0].split()) for line in lines]

"""Three brokers under measurement as one: started fresh, loaded, hurt on purpose, removed.

Apache Kafka runs as three nodes that are broker and controller at once, as small clusters do;
Barnabas as three brokers with a file arbiter. Both have their own defaults but for what the
scenarios name: replication factor 3, two replicas in sync.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from benchmarks.trial import Broker, Trial, end, process_of
from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_process import BarnabasProcess
from tests.support.processes import free_port

NODE_IDS = (0, 1, 2)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_DEADLINE_SECONDS = 300.0
_POLL_SECONDS = 0.02
_PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "auto.create.topics.enable": "false",
}


class Cluster:
    """Three brokers; to the clients' runner it looks like one whose processes are summed up."""

    def __init__(self, trial: Trial, properties: Mapping[str, str] | None = None) -> None:
        self.name = trial.kind
        self.directory = trial.directory / "cluster"
        given = {**_PROPERTIES, **(properties or {})}
        self._peer_version = trial.peer_version
        make = self._apache if trial.kind == "apache" else self._barnabas
        self.brokers: dict[int, Broker] = make(given)

    def _apache(self, properties: Mapping[str, str]) -> dict[int, Broker]:
        nodes = {
            node_id: ApacheKafka(
                self.directory / str(node_id),
                version=self._peer_version,
                properties={
                    "transaction.state.log.replication.factor": "3",
                    "transaction.state.log.min.isr": "2",
                    **properties,
                    "node.id": str(node_id),
                },
            )
            for node_id in NODE_IDS
        }
        voters = ",".join(
            f"{node_id}@127.0.0.1:{node.controller_port}" for node_id, node in nodes.items()
        )
        for node in nodes.values():
            node.properties["controller.quorum.voters"] = voters
        return dict(nodes)

    def _barnabas(self, properties: Mapping[str, str]) -> dict[int, Broker]:
        return {
            node_id: BarnabasProcess(
                self.directory / str(node_id),
                free_port(),
                properties={
                    **properties,
                    "node.id": str(node_id),
                    "cluster.id": CLUSTER_ID,
                    "arbiter.file.path": str(self.directory / "arbiter.json"),
                },
            )
            for node_id in NODE_IDS
        }

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def cpu_seconds(self) -> float:
        """Processor time of the brokers that run, all together."""
        return sum(
            process_of(broker).cpu_seconds()
            for broker in self.brokers.values()
            if process_of(broker).is_running()
        )

    def start(self) -> None:
        """Start all brokers at once; returns when each accepts connections."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as threads:
            for done in [threads.submit(broker.start) for broker in self.brokers.values()]:
                done.result()

    def stop(self) -> None:
        """End what runs, one after the other."""
        for broker in self.brokers.values():
            end(broker)

    def run(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Do something with an administrative client of the cluster."""

        async def with_admin() -> None:
            async with Admin(self.bootstrap, request_timeout_ms=120_000) as admin:
                await work(admin)

        asyncio.run(with_admin())

    def create_topics(self, prefix: str, count: int, partition_count: int) -> dict[str, float]:
        """Make topics of three replicas; seconds until created and until all are in sync."""
        names = [f"{prefix}-{number}" for number in range(count)]
        topics = [
            NewTopic(name=name, partition_count=partition_count, replication_factor=3)
            for name in names
        ]
        seconds: dict[str, float] = {}

        async def create(admin: Admin) -> None:
            await admin.topics.list()  # connects before the clock starts
            began = time.monotonic()
            (await admin.topics.create(topics, timeout_ms=120_000)).unwrap()
            seconds["created"] = time.monotonic() - began
            await until(lambda: are_in_sync(admin, names))
            seconds["in sync"] = time.monotonic() - began

        self.run(create)
        return seconds

    def controller_id(self) -> int:
        """The broker that clients are told is the controller, and that is one of Barnabas."""
        found: list[int] = []

        async def ask(admin: Admin) -> None:
            controller = (await admin.cluster.describe()).controller_id
            if controller is not None:
                found.append(controller)

        self.run(ask)
        return found[0]


async def are_in_sync(admin: Admin, topics: list[str]) -> bool:
    """Whether every partition has a leader and all of its replicas in sync."""
    described = await admin.topics.describe(topics)
    return not described.errors and all(
        len(one.in_sync_replica_ids) == len(one.replica_ids) and one.leader_id is not None
        for topic in described.unwrap().values()
        for one in topic.partitions.values()
    )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds. Raises: TimeoutError."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(_POLL_SECONDS)


@contextmanager
def cluster(trial: Trial, properties: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Three running brokers that know one another; their data is removed behind them."""
    shutil.rmtree(trial.directory / "cluster", ignore_errors=True)
    made = Cluster(trial, properties)
    try:
        made.start()
        made.run(_all_are_there)
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.directory, ignore_errors=True)


async def _all_are_there(admin: Admin) -> None:
    async def are_there() -> bool:
        return len((await admin.cluster.describe()).brokers) == len(NODE_IDS)

    await until(are_there)

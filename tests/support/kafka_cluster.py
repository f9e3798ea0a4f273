"""A real Apache Kafka cluster on this machine: one controller and three brokers, as processes.

The controller is a node of its own, so that all brokers but one may be down. Each broker is alone
in its rack `rack-<id>`. The JVMs are tuned for a quick start on few cores, not for speed.

Every topic, the coordinators' too, has three replicas and wants two in sync: the cluster serves
everything while one broker is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.support.apache_kafka import CLUSTER_ID, DEFAULT_VERSION, ApacheKafka

CONTROLLER_ID = 100
BROKER_IDS = (1, 2, 3)
_DEADLINE_SECONDS = 90
_INTERVAL_SECONDS = 0.05
_HEAP = "256M"
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "6",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    # Tests elect the preferred leaders themselves.
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    # A broker that was killed is missed soon, one that starts on a busy machine is not.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}


class KafkaCluster:
    """Nodes under one folder; `brokers` are to be stopped, killed and started one by one."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        version: str = DEFAULT_VERSION,
    ) -> None:
        self._version = version
        self._properties = {**_PROPERTIES, **(properties or {})}
        self.controller = self._node(directory, CONTROLLER_ID)
        self._voters = f"{CONTROLLER_ID}@127.0.0.1:{self.controller.port}"
        self.controller.properties |= {
            "process.roles": "controller",
            "controller.quorum.voters": self._voters,
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller.port}",
        }
        del self.controller.properties["advertised.listeners"]
        self.brokers = {node_id: self._broker(directory, node_id) for node_id in BROKER_IDS}

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> None:
        """Start what does not run; returns when every broker accepts connections.

        Where one does not, none is left running.
        """
        try:
            _at_once(
                node.start
                for node in (self.controller, *self.brokers.values())
                if node.process is None or not node.process.is_running()
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything; the data is not needed any more, so in the quickest way."""
        for node in (*self.brokers.values(), self.controller):
            if node.process is not None and node.process.is_running():
                node.kill()

    async def until_formed(self, admin: Admin) -> None:
        """Wait until clients see all brokers, and a controller."""

        async def is_formed() -> bool:
            described = await admin.cluster.describe()
            return len(described.brokers) == len(self.brokers)

        await until(is_formed)

    async def until_in_sync(self, admin: Admin, topics: Collection[str]) -> None:
        """Wait until every replica of the topics, and of the coordinators' topics, is in sync."""
        await until_in_sync(admin, topics)

    async def create_topics(self, admin: Admin, *topics: NewTopic) -> None:
        """Create topics and wait until all of their replicas are in sync."""
        (await admin.topics.create(topics)).unwrap()
        names = [topic.name for topic in topics]
        await self.until_in_sync(admin, names)

    def __enter__(self) -> "KafkaCluster":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _node(self, directory: Path, node_id: int) -> ApacheKafka:
        return ApacheKafka(
            directory / str(node_id),
            version=self._version,
            properties={**self._properties, "node.id": str(node_id)},
            heap=_HEAP,
            jvm_options=_JVM_OPTIONS,
        )

    def _broker(self, directory: Path, node_id: int) -> ApacheKafka:
        node = self._node(directory, node_id)
        node.properties |= {
            "process.roles": "broker",
            "controller.quorum.voters": self._voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
            "broker.rack": f"rack-{node_id}",
        }
        # All that formatting writes for a broker, without another JVM.
        node.data_directory.mkdir(parents=True)
        (node.data_directory / "meta.properties").write_text(
            f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\n"
        )
        return node


async def until_in_sync(admin: Admin, topics: Collection[str]) -> None:
    """Wait until every replica of the topics, and of the coordinators' topics, is in sync."""
    names = [one.name for one in await admin.topics.list(include_internal=True)]
    watched = [name for name in names if name in topics or name.startswith("__")]

    async def are_in_sync() -> bool:
        described = await admin.topics.describe(watched)
        return not described.errors and all(
            len(one.in_sync_replica_ids) == len(one.replica_ids) and one.leader_id is not None
            for topic in described.unwrap().values()
            for one in topic.partitions.values()
        )

    await until(are_in_sync)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds: brokers take their time on a busy machine."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not await condition():
            await asyncio.sleep(_INTERVAL_SECONDS)


def _at_once(calls: Iterable[Callable[[], object]]) -> None:
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(call) for call in calls]:
            done.result()

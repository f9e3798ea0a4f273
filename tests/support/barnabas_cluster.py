"""Several Barnabas brokers on this machine, each a process, with one arbiter in a file.

The interface is that of `KafkaCluster`, so that a test runs against either; and more faults.
Every topic, the coordinators' too, has as many replicas as there are brokers, three at most.
"""

import signal
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.topics import NewTopic
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_cluster import until, until_in_sync
from tests.support.network_namespaces import NetworkNamespaces

CLUSTER_ID = "QmFybmFiYXNUZXN0MDAwMQ"
_PROPERTIES = {
    "cluster.id": CLUSTER_ID,
    "arbiter.backend": "file",
    "offsets.topic.num.partitions": "6",
    "auto.create.topics.enable": "false",
    # Faults are noticed soon; a process on a busy machine still lives.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "arbiter.time.to.live.ms": "4000",
    "arbiter.poll.interval.ms": "100",
    "barnabas.drain.budget.ms": "15000",
    "replica.lag.time.max.ms": "5000",
    "group.min.session.timeout.ms": "1000",
}


class BarnabasCluster:
    """Brokers 0, 1, ... under one folder; to be stopped, killed and started one by one."""

    def __init__(
        self,
        directory: Path,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        *,
        hosts: NetworkNamespaces | None = None,
        node_ids: Collection[int] | None = None,
    ) -> None:
        """With hosts, each broker runs on one of its own; ids are 0, 1, ... unless given."""
        ids = range(count) if node_ids is None else node_ids
        directory.mkdir(parents=True, exist_ok=True)
        replicas = str(min(3, count))
        self._arbiter_file = directory / "arbiter.json"
        shared = {
            **_PROPERTIES,
            "arbiter.file.path": str(self._arbiter_file),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, int(replicas))),
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": str(min(2, int(replicas))),
            "min.insync.replicas": "2" if count > 1 else "1",
            **(properties or {}),
        }
        self.brokers = {
            node_id: BarnabasProcess(
                directory / str(node_id),
                properties={
                    **shared,
                    "node.id": str(node_id),
                    "broker.rack": f"rack-{node_id}",
                },
                host="127.0.0.1" if hosts is None else hosts.address(node_id),
                command_prefix=() if hosts is None else hosts.command(node_id),
            )
            for node_id in ids
        }

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> None:
        """Start what does not run; returns when every broker accepts connections.

        Where one does not, none is left running.
        """
        waiting = [broker for broker in self.brokers.values() if not self._is_running(broker)]
        try:
            with ThreadPoolExecutor() as threads:
                for started in [threads.submit(broker.start) for broker in waiting]:
                    started.result()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> dict[int, int]:
        """SIGTERM to all at once; returns the exit codes of those that ran."""
        running = {
            node_id: broker for node_id, broker in self.brokers.items() if self._is_running(broker)
        }
        for broker in running.values():
            resume(broker)
        with ThreadPoolExecutor() as threads:
            codes = {node_id: threads.submit(one.stop) for node_id, one in running.items()}
            return {node_id: code.result() for node_id, code in codes.items()}

    def kill(self) -> None:
        """SIGKILL to all that run."""
        for broker in self._running():
            broker.kill()

    def logs(self) -> str:
        """The end of what each broker printed."""
        return "\n".join(
            f"--- broker {node_id}\n{broker.process.log_tail()}"
            for node_id, broker in self.brokers.items()
            if broker.process is not None
        )

    async def until_formed(self, admin: Admin, count: int | None = None) -> None:
        """Wait until clients see this many brokers, by default all, and a controller.

        And until the metadata log has all the members that it can have, so that one may fail, and
        until the admin HTTP of each answers, which brokers start when they have served for a while.
        """
        expected = len(self.brokers) if count is None else count

        async def is_formed() -> bool:
            described = await admin.cluster.describe()
            ready = [broker for broker in described.brokers if not broker.is_fenced]
            return len(ready) == expected and described.controller_id is not None

        async def is_safe() -> bool:
            return len(self.members) == min(3, len(self.brokers))

        async def is_observed() -> bool:
            return all(map(_has_admin_http, self._running()))

        await until(is_formed)
        await until(is_safe)
        await until(is_observed)

    @property
    def members(self) -> set[int]:
        """Who the arbiter says are the members of the metadata log; empty before there are any."""
        for broker in self._running():
            try:
                return set(broker.status()["metadata_members"])
            except OSError:
                continue
        return set()

    async def until_in_sync(self, admin: Admin, topics: Collection[str]) -> None:
        """Wait until every replica of the topics, and of the coordinators' topics, is in sync."""
        await until_in_sync(admin, topics)

    async def create_topics(self, admin: Admin, *topics: NewTopic) -> None:
        """Create topics and wait until all of their replicas are in sync."""
        (await admin.topics.create(topics)).unwrap()
        await self.until_in_sync(admin, [topic.name for topic in topics])

    def __enter__(self) -> "BarnabasCluster":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            print(self.logs())  # pytest shows it beside what failed
            self.kill()

    def _running(self) -> list[BarnabasProcess]:
        return [broker for broker in self.brokers.values() if self._is_running(broker)]

    @staticmethod
    def _is_running(broker: BarnabasProcess) -> bool:
        return broker.process is not None and broker.process.is_running()


def _has_admin_http(broker: BarnabasProcess) -> bool:
    try:
        broker.status()
    except OSError:
        return False
    return True


def pause(broker: BarnabasProcess) -> None:
    """SIGSTOP: alive to the system, silent to everybody."""
    assert broker.process is not None
    broker.process.process.send_signal(signal.SIGSTOP)


def resume(broker: BarnabasProcess) -> None:
    """SIGCONT."""
    assert broker.process is not None
    broker.process.process.send_signal(signal.SIGCONT)


def terminate(broker: BarnabasProcess) -> None:
    """SIGTERM, without waiting for the end."""
    assert broker.process is not None
    broker.process.process.send_signal(signal.SIGTERM)

"""Brokers for Kafka's own test classes: a cluster for each test, started and stopped by lines.

A test program in Java connects to `port`. A command is a line of words with tabs between them, and
gets a line back: `ok` and results, or `error` and a reason.

    start COUNT [BROKER]=KEY=VALUE ...   a fresh cluster -> ID=PORT ...
    stop-broker ID, start-broker ID      one of its brokers
    stop                                 the whole cluster

Settings are those that Kafka's tests give their own brokers, over Kafka's defaults.
"""

import asyncio
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType

from barnabas_client.admin.admin import Admin
from tests.support.barnabas_cluster import BarnabasCluster

# Where `BarnabasCluster` sets what suits our tests and Kafka's brokers have another default.
_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "transaction.state.log.num.partitions": "6",
}
# What tests set without effect, as Kafka's brokers do not know it either, or what Barnabas refuses
# to know as there is nothing to set.
_NOT_HERE = frozenset({"log.unclean.leader.election.enable", "log.initial.task.delay.ms"})


class ClassBrokers:
    """Carries out the commands of one test program; one cluster at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        self._cluster: BarnabasCluster | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "ClassBrokers":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._stop()

    def _serve(self) -> None:
        commands: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
            "start": self._start,
            "stop": lambda words: self._stop(),
            "stop-broker": self._stop_broker,
            "start-broker": self._start_broker,
        }
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rw", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                name, *words = line.rstrip("\n").split("\t")
                try:
                    answer = "\t".join(["ok", *commands[name](words)])
                except Exception as error:  # the test program is told, and its test fails
                    answer = f"error\t{error}".replace("\n", " ")
                lines.write(answer + "\n")
                lines.flush()

    def _start(self, words: Sequence[str]) -> list[str]:
        self._stop()
        count = int(words[0])
        shared, own = _settings(words[1:])
        self._count += 1
        cluster = BarnabasCluster(
            self._directory / f"cluster-{self._count}", count, {**_DEFAULTS, **shared}
        )
        for node_id, properties in own.items():
            cluster.brokers[node_id].properties.update(properties)
        cluster.start()
        self._cluster = cluster
        if count > 1:
            asyncio.run(_form(cluster))
        return [f"{node_id}={broker.port}" for node_id, broker in cluster.brokers.items()]

    def _stop(self) -> Sequence[str]:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.kill()
            if self._count > 1:  # of the last one what it logged is kept
                shutil.rmtree(self._directory / f"cluster-{self._count - 1}", ignore_errors=True)
        return ()

    def _stop_broker(self, words: Sequence[str]) -> Sequence[str]:
        assert self._cluster is not None
        self._cluster.brokers[int(words[0])].stop()
        return ()

    def _start_broker(self, words: Sequence[str]) -> Sequence[str]:
        assert self._cluster is not None
        self._cluster.brokers[int(words[0])].start()
        return ()


def _settings(words: Iterable[str]) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """Of all brokers, and of one."""
    shared: dict[str, str] = {}
    own: dict[int, dict[str, str]] = {}
    for word in words:
        node_id, key, value = word.split("=", 2)
        if key not in _NOT_HERE:
            (own.setdefault(int(node_id), {}) if node_id else shared)[key] = value
    return shared, own


async def _form(cluster: BarnabasCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await cluster.until_formed(admin)

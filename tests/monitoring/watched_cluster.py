"""A cluster of three brokers with some load, an operator's metrics, and a Prometheus that scrapes.

The operator itself is not run: its metrics are filled by the calls that it makes.
"""

import asyncio
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from barnabas_client import AcknowledgeType, Producer, ShareConsumer
from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.share import ShareRecord
from barnabas_operator.kubernetes.kinds import STATEFUL_SET, TOPIC
from barnabas_operator.metrics import OperatorMetrics
from barnabas_operator.reconcile.broker.eviction_gate import Ruling
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.work_queue import ReconcileResult
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import barnabas_command
from tests.support.prometheus import Prometheus

TOPIC_NAME = "orders"
GROUP = "billing"
BILLS = "bills"
QUEUE = "packing"
LETTERS = "dlq.packing"


class WatchedCluster:
    """The brokers, their load, and the operator's metrics under an address."""

    def __init__(self, brokers: BarnabasCluster, operator_address: str) -> None:
        self.brokers = brokers
        self.operator_address = operator_address

    @property
    def jobs(self) -> dict[str, list[tuple[str, str]]]:
        """What a Prometheus should scrape."""
        return {
            "demo": [
                (f"127.0.0.1:{broker.admin_port}", f"demo-{node_id}")
                for node_id, broker in self.brokers.brokers.items()
            ],
            "barnabas-operator": [(self.operator_address, "barnabas-operator-0")],
        }

    def families(self) -> list[Metric]:
        """All metric families of all brokers and of the operator, as they are told now."""
        found: list[Metric] = []
        for targets in self.jobs.values():
            for address, _ in targets:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                    found += text_string_to_metric_families(answer.read().decode())
        return found

    def command(self, *arguments: str, lines: int = 0) -> str:
        """What a `barnabas` command prints; `lines` numbers go to its standard input."""
        result = subprocess.run(
            [barnabas_command(), *arguments, "--bootstrap-server", self.brokers.bootstrap],
            input="".join(f"{number}\n" for number in range(lines)),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if result.returncode != 0:
            raise RuntimeError(f"{arguments}: {result.stdout}{result.stderr}")
        return result.stdout

    def produce(self, records: int) -> None:
        """Write to the topic."""
        self.command("produce", TOPIC_NAME, lines=records)

    def consume(self, records: int) -> None:
        """Read as the group, and commit."""
        self.command(
            "consume", TOPIC_NAME, "--group", GROUP, "--from-beginning", "-n", str(records)
        )

    async def queue(self) -> None:
        """A share group that has rejected a record, so that there is a dead letter."""
        async with Admin(self.brokers.bootstrap) as admin:
            permitted = {"errors.deadletterqueue.group.enable": "true"}
            topic = NewTopic(
                name=LETTERS, partition_count=1, replication_factor=3, configs=permitted
            )
            (await admin.topics.create([topic])).unwrap()
            changes = [
                ConfigChange.set("share.auto.offset.reset", "earliest"),
                ConfigChange.set("errors.deadletterqueue.topic.name", LETTERS),
            ]
            (await admin.configs.alter({ConfigResource.group(QUEUE): changes})).unwrap()
        options: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
        async with (
            asyncio.timeout(60),
            ShareConsumer(self.brokers.bootstrap, group_id=QUEUE, **options) as consumer,
        ):
            consumer.subscribe([TOPIC_NAME])
            records: list[ShareRecord] = []
            while not records:
                records = await consumer.poll(timeout_ms=500)
            for record in records:
                consumer.acknowledge(record, AcknowledgeType.REJECT)
            await consumer.commit()

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """A member of the share group that goes on."""
        command = [
            str(barnabas_command()),
            "share",
            "consume",
            TOPIC_NAME,
            "--group",
            QUEUE,
            "--follow",
        ]
        command += ["--bootstrap-server", self.brokers.bootstrap]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    async def transaction(self) -> None:
        """One that is committed, so that a coordinator has something to tell."""
        async with (
            Producer(self.brokers.bootstrap, transactional_id="bills") as producer,
            producer.transaction(),
        ):
            producer.send(BILLS, b"bill")


@contextmanager
def watched_cluster(directory: Path) -> Iterator[WatchedCluster]:
    """A cluster whose group has read a part of a topic, and goes on being scraped."""
    with BarnabasCluster(directory) as brokers, operator_metrics() as address:
        watched = WatchedCluster(brokers, address)
        watched.command("topic", "create", TOPIC_NAME, "--partitions", "6", "--replicas", "3")
        watched.command("topic", "create", BILLS, "--partitions", "1", "--replicas", "3")
        watched.produce(600)
        watched.consume(200)
        asyncio.run(watched.transaction())
        asyncio.run(watched.queue())
        with watched.sharing():
            yield watched


@contextmanager
def operator_metrics() -> Iterator[str]:
    """The address of an operator's `/metrics` after it has done some of everything."""
    metrics = OperatorMetrics()
    queue: Any = SimpleNamespace(in_progress=1, depth=2, oldest_seconds=0.5)
    metrics.watch_queue(queue)
    metrics.lead(True)
    key = Key(kind=KeyKind.TOPICS, namespace="shop", name="demo")
    for error in (None, TimeoutError()):
        metrics.finished(ReconcileResult(key=key, seconds=0.2, error=error))
    metrics.request("get", TOPIC, 200)
    metrics.request("apply", STATEFUL_SET, 200)
    metrics.on_event(TOPIC)
    metrics.resources(TOPIC, key, ready=3, others=1)
    metrics.eviction(Ruling.SAFE)
    in_a_year = time.time() + 365 * 86400
    metrics.watch_certificate(lambda: in_a_year)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = metrics.exposition()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def scraping(directory: Path, watched: WatchedCluster, *rule_files: Path) -> Prometheus:
    """A Prometheus for them, not started yet."""
    return Prometheus(directory, watched.jobs, rule_files=rule_files)

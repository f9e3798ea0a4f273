"""A cluster of brokers that a test declares by a Broker of its own, and changes as it likes.

The resource is applied whole each time, so what a test leaves out goes back to its default.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.kubectl import is_ready
from tests.e2e.support.security_mode import (
    CHANGE_SECONDS,
    IS_SECURE,
    SECURITY,
    is_as_secure_as_wanted,
)
from tests.e2e.support.topics import API_VERSION

ZONE = "topology.kubernetes.io/zone"
DRAIN_SECONDS = 240
SPARE_CONFIG = {
    "offsets.topic.num.partitions": 6,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
}


class DeclaredBrokers(BrokerCluster):
    """The Broker `name`, its pods, and what its status tells."""

    def declare(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """Apply the Broker with just this."""
        self.kubectl.apply(
            {
                "apiVersion": API_VERSION,
                "kind": "Broker",
                "metadata": {"name": self.name, "annotations": annotations or {}},
                "spec": spec,
            }
        )

    def annotate(self, annotation: str, value: str) -> None:
        """Set one annotation of the Broker."""
        words = ["annotate", "broker", self.name, f"{annotation}={value}", "--overwrite"]
        self.kubectl.run(*words)

    def resource(self) -> Any:
        """The Broker as it is now, or None."""
        return self.kubectl.get("broker", self.name)

    def told(self) -> Any:
        """Its status, empty before there is one."""
        return (self.resource() or {}).get("status", {})

    def plan(self) -> Any:
        """`status.plan`, empty before there is one."""
        return self.told().get("plan", {})

    def until_told(self, holds: Callable[[Any], bool], timeout_seconds: float = 120) -> Any:
        """The status, once it says so."""
        found: list[Any] = [{}]

        def asked() -> bool:
            found[0] = self.told()
            return holds(found[0])

        self.kubectl.until(asked, timeout_seconds, self.describe)
        return found[0]

    def until_settled(self, timeout_seconds: float = 300) -> None:
        """Ready by what the operator says of the present spec, and nothing is planned."""
        self.kubectl.until(self.is_settled, timeout_seconds, self.describe)

    def is_settled(self) -> bool:
        broker = self.resource()
        if broker is None or not is_ready(broker):
            return False
        status = broker["status"]
        is_planned = status.get("restarting") or status.get("plan", {}).get("restarts")
        return not is_planned and status["observedGeneration"] == broker["metadata"]["generation"]

    def phase(self, node_id: int) -> str:
        """How the status calls the state of a broker, empty where it knows none."""
        phases = {one["id"]: one["phase"] for one in self.told().get("brokers", ())}
        return str(phases.get(node_id, ""))

    def claim(self, node_id: int) -> Any:
        """The volume claim of a broker, or None."""
        return self.kubectl.get("persistentvolumeclaim", f"data-{self.name}-{node_id}")

    @contextmanager
    def draining(self, node_id: int) -> Iterator[subprocess.Popen[str]]:
        """`kubectl drain` of the node of a broker, of the brokers of this cluster only."""
        node = self.pod(node_id)["spec"]["nodeName"]
        options = ["--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DRAIN_SECONDS}s"]
        command = self.kubectl.command(
            "drain", node, *options, f"--pod-selector=barnabas.dev/broker={self.name}"
        )
        both = subprocess.STDOUT
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=both, text=True) as process:
            try:
                yield process
            finally:
                process.kill()
                self.kubectl.run("uncordon", node)

    def forget(self) -> None:
        """Delete the Broker, its pods, volumes and Lease."""
        self.kubectl.delete("broker", self.name)
        mine = f"barnabas.dev/broker={self.name}"
        self.kubectl.until(
            lambda: self.kubectl.list("pods", mine) == [], 180, self.kubectl.describe_pods
        )
        self.kubectl.run("delete", "persistentvolumeclaims", "--selector", mine)
        lease = f"{self.name}-arbiter"
        if self.kubectl.get("lease", lease) is not None:
            self.kubectl.run("annotate", "lease", lease, "--overwrite", "barnabas.dev/delete=true")
            self.kubectl.run("delete", "lease", lease, "--ignore-not-found")

    def describe(self) -> str:
        resource = json.dumps(self.resource() or {}, indent=1)
        return f"{resource}\n{self.kubectl.describe_pods()}"


def ended(process: subprocess.Popen[str]) -> str:
    """All that a drain said, once it has ended well."""
    said, _ = process.communicate(timeout=DRAIN_SECONDS + 30)
    assert process.returncode == 0, said
    return said


class SpareBrokers(DeclaredBrokers):
    """Three brokers beside those of the chart, with which tests do what takes a cluster apart."""

    def spec(self, **more: Any) -> dict[str, Any]:
        """What they are like at the start of a test, and what the test wants otherwise."""
        return {
            "replicas": 3,
            "storage": {"size": "1Gi"},
            "rack": {"topologyKey": ZONE},
            "config": SPARE_CONFIG,
            **({"security": SECURITY} if IS_SECURE else {}),
            **more,
        }

    def provide(self) -> None:
        """As they should be, and well. New ones that are to be secure are plain at first."""
        if IS_SECURE and self.resource() is None:
            self.declare(**{**self.spec(), "security": {"enabled": False}})
            self.until_settled()
        self.declare(**self.spec())
        self.until_told(is_as_secure_as_wanted, CHANGE_SECONDS)
        self.until_settled()

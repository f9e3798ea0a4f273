"""The release of the chart that the tests share: the operator, and three brokers called `demo`."""

import json
from typing import Any

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.helm import Helm
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, is_ready, names

# Enough for the tests, and quick to make in a small machine.
CONFIG = {
    "offsets.topic.num.partitions": 10,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
}


def values_for(images: Images, **more: Any) -> dict[str, Any]:
    """Values of the chart that name the images of this tree."""
    operator, operator_tag = images.operator.rsplit(":", 1)
    broker, broker_tag = images.broker.rsplit(":", 1)
    return {
        "operator": {"image": {"repository": operator, "tag": operator_tag}},
        "brokerImage": {"repository": broker, "tag": broker_tag},
        "broker": {
            # Tests have their topics in namespaces of their own.
            "annotations": {"barnabas.dev/allowed-namespaces": "*"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}, "config": CONFIG},
        },
        **more,
    }


class Release:
    """One release in a namespace of its own."""

    def __init__(self, cluster: Cluster, images: Images, *, namespace: str, name: str) -> None:
        self.name = name
        self.namespace = namespace
        self.helm = Helm(cluster, namespace)
        self.kubectl: Kubectl = cluster.kubectl.within(namespace)
        self.values = values_for(images)
        self.brokers = BrokerCluster(self.kubectl, name)

    @property
    def operator(self) -> str:
        """The Deployment of the operator, whose service account has the same name."""
        return f"{self.name}-barnabas-operator"

    @property
    def service_account(self) -> str:
        """As `audit_log` wants it."""
        return f"{self.namespace}:{self.operator}"

    def provide(self) -> None:
        """Install or upgrade, and wait until the brokers are Ready by what the operator says."""
        listed = json.loads(self.helm.run("list", "--all", "--output", "json"))
        broken = [one for one in listed if one["status"] not in ("deployed", "superseded")]
        if broken:
            self.helm.uninstall(self.name)
        self.helm.upgrade(self.name, self.values, "--install", "--create-namespace", "--wait")
        self.until_ready()

    def forget(self) -> None:
        """Leave nothing behind: no release, no definitions, no volumes, no Lease."""
        self.helm.uninstall(self.name)
        for plural in ("topics", "consumergroups", "brokers"):
            self.kubectl.delete("customresourcedefinition", f"{plural}.barnabas.dev")
        self.kubectl.until(lambda: self.kubectl.list("pods") == [], 180, self.kubectl.describe_pods)
        self.kubectl.run("delete", "persistentvolumeclaims", "--all", timeout_seconds=120)
        # The policy that keeps the arbiter's Lease goes with the release, but not at once.
        for lease in names(self.kubectl.list("leases")):
            self.kubectl.run("annotate", "lease", lease, "--overwrite", "barnabas.dev/delete=true")
        self.kubectl.run("delete", "leases", "--all")

    def until_ready(self, timeout_seconds: float = 300) -> None:
        """The Broker is Ready, and nothing is planned."""
        self.kubectl.until(self.is_ready, timeout_seconds, self.describe)

    def is_ready(self) -> bool:
        broker = self.kubectl.get("broker", self.name)
        if broker is None or not is_ready(broker):
            return False
        status = broker["status"]
        return not status.get("restarting") and not status.get("plan", {}).get("restarts")

    def broker(self) -> Any:
        """The Broker resource."""
        return self.kubectl.get("broker", self.name)

    def stop_operator(self) -> None:
        """No operator runs."""
        self._scale_operator(0)
        self.kubectl.until(
            lambda: not self.operator_pods(), 90, lambda: str(names(self.operator_pods()))
        )

    def start_operator(self) -> None:
        """One operator runs, and has found its work."""
        self._scale_operator(1)
        self.kubectl.run("rollout", "status", f"deployment/{self.operator}", "--timeout=90s")

    def operator_pods(self) -> list[Any]:
        return self.kubectl.list("pods", "app.kubernetes.io/component=operator")

    def describe(self) -> str:
        resource = json.dumps(self.broker() or {}, indent=1)
        return f"{resource}\n{self.kubectl.describe_pods()}"

    def _scale_operator(self, replicas: int) -> None:
        self.kubectl.run("scale", f"deployment/{self.operator}", f"--replicas={replicas}")

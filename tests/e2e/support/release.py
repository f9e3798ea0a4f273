"""The release of the chart that the tests share: the operator, and three brokers called `demo`."""

import copy
import json
from typing import Any

from tests.e2e.support.broker_cluster import BrokerCluster
from tests.e2e.support.cluster import Cluster
from tests.e2e.support.helm import Helm
from tests.e2e.support.images import Images
from tests.e2e.support.kubectl import Kubectl, is_ready, names
from tests.e2e.support.security_mode import (
    CHANGE_SECONDS,
    IS_SECURE,
    SECURITY,
    is_as_secure_as_wanted,
)

# Enough for the tests, and quick to make in a small machine.
CONFIG = {
    "offsets.topic.num.partitions": 10,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
}


def values_for(images: Images) -> dict[str, Any]:
    """Values of the chart that name the images of this tree, with what `SECURE` asks for."""
    values = plain_values(images)
    if IS_SECURE:
        values["broker"]["spec"]["security"] = SECURITY
        # Brokers of the tests are in namespaces that the chart cannot know.
        values["rbac"] = {"security": True, "connectionSecrets": True}
    return values


def plain_values(images: Images) -> dict[str, Any]:
    """Values that any revision of the chart knows."""
    operator, operator_tag = images.operator.rsplit(":", 1)
    broker, broker_tag = images.broker.rsplit(":", 1)
    spec: dict[str, Any] = {"replicas": 3, "storage": {"size": "1Gi"}, "config": CONFIG}
    return {
        "operator": {"image": {"repository": operator, "tag": operator_tag}},
        "brokerImage": {"repository": broker, "tag": broker_tag},
        "broker": {
            # Tests have their topics in namespaces of their own.
            "annotations": {"barnabas.dev/allowed-namespaces": "*"},
            "spec": spec,
        },
    }


def _without_security(values: dict[str, Any]) -> dict[str, Any]:
    """The same values for brokers that are plain."""
    plain = copy.deepcopy(values)
    del plain["broker"]["spec"]["security"]
    return plain


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
        self.provide_namespace()
        if IS_SECURE and (broken or not listed):
            self.helm.upgrade(self.name, self.first_values(), "--install", "--wait")
            self.until_installed()
        self.helm.upgrade(self.name, self.values, "--install", "--wait")
        self.until_ready()

    def first_values(self) -> dict[str, Any]:
        """Those of an installation: its brokers are plain, and become secure afterwards."""
        return _without_security(self.values) if IS_SECURE else self.values

    def until_installed(self) -> None:
        """The brokers of `first_values` are Ready."""
        self.kubectl.until(lambda: is_ready(self.broker() or {"metadata": {}}), 300, self.describe)

    def provide_namespace(self) -> None:
        """The namespace, in which pods have to keep to the restricted profile."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": self.namespace, "labels": labels}
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def forget(self) -> None:
        """Leave nothing behind: no release, no definitions, no volumes, no Lease."""
        self.helm.uninstall(self.name)
        for plural in ("topics", "consumergroups", "users", "brokers"):
            self.kubectl.delete("customresourcedefinition", f"{plural}.barnabas.dev")
        self.kubectl.until(lambda: self.kubectl.list("pods") == [], 180, self.kubectl.describe_pods)
        self.kubectl.run("delete", "persistentvolumeclaims", "--all", timeout_seconds=120)
        # The policy that keeps the arbiter's Lease goes with the release, but not at once.
        for lease in names(self.kubectl.list("leases")):
            self.kubectl.run("annotate", "lease", lease, "--overwrite", "barnabas.dev/delete=true")
        self.kubectl.run("delete", "leases", "--all")

    def until_ready(self, timeout_seconds: float = CHANGE_SECONDS) -> None:
        """The Broker is Ready, and nothing is planned."""
        self.kubectl.until(self.is_ready, timeout_seconds, self.describe)

    def is_ready(self) -> bool:
        broker = self.kubectl.get("broker", self.name)
        if broker is None or not is_ready(broker):
            return False
        status = broker["status"]
        is_planned = status.get("restarting") or status.get("plan", {}).get("restarts")
        return not is_planned and is_as_secure_as_wanted(status)

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

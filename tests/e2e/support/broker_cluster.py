"""A cluster of brokers in a namespace, seen from outside: pods and what their `/status` says."""

import json
from typing import Any

from tests.e2e.support.kubectl import Kubectl, KubectlError

# Asked from within the pod, whose image has no curl: the admin port is not for everybody. With TLS
# the metrics' token, which the pod mounts, opens it; the certificate names the Services.
_ASK = """
import http.client, pathlib, ssl, sys, urllib.request
token = pathlib.Path("/etc/barnabas-tls/admin-token")
try:
    asked = urllib.request.urlopen(f"http://127.0.0.1:9644{sys.argv[1]}", timeout=5)
except (OSError, http.client.HTTPException):
    trusted = ssl.create_default_context(cafile="/etc/barnabas-tls/cluster-ca.crt")
    named = {"Authorization": "Bearer " + token.read_text().strip()}
    request = urllib.request.Request(f"https://localhost:9644{sys.argv[1]}", headers=named)
    asked = urllib.request.urlopen(request, timeout=5, context=trusted)
print(asked.read().decode())
"""


class BrokerCluster:
    """The brokers `name`-0, `name`-1 and so on."""

    def __init__(self, kubectl: Kubectl, name: str, size: int = 3) -> None:
        self.kubectl = kubectl
        self.name = name
        self.size = size

    @property
    def bootstrap(self) -> str:
        return f"{self.name}-bootstrap.{self.kubectl.namespace}.svc.cluster.local:9092"

    def pod_name(self, node_id: int) -> str:
        return f"{self.name}-{node_id}"

    def pod(self, node_id: int) -> Any:
        """The pod as it is now, or None."""
        return self.kubectl.get("pod", self.pod_name(node_id))

    def uids(self) -> dict[int, str]:
        """Which pods there are: another uid is another pod."""
        pods = {node_id: self.pod(node_id) for node_id in range(self.size)}
        return {node_id: pod["metadata"]["uid"] for node_id, pod in pods.items() if pod}

    def ask(self, node_id: int, path: str) -> str:
        """What the admin port of a broker answers."""
        return self.kubectl.execute(self.pod_name(node_id), "python3", "-c", _ASK, path)

    def status(self, node_id: int) -> dict[str, Any]:
        """`/status` of a broker."""
        status: dict[str, Any] = json.loads(self.ask(node_id, "/status"))
        return status

    def controller(self) -> int:
        """Which broker leads the control plane."""
        for node_id in range(self.size):
            try:
                found = self.status(node_id)["controller"]["node_id"]
            except KubectlError:
                continue
            if found is not None and found >= 0:
                return int(found)
        raise AssertionError("nobody knows a controller")

    def is_pod_ready(self, node_id: int) -> bool:
        pod = self.pod(node_id)
        conditions = (pod or {}).get("status", {}).get("conditions", ())
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def until_ready(self, timeout_seconds: float = 180) -> None:
        """All pods are Ready."""
        self.kubectl.until(
            lambda: all(self.is_pod_ready(node_id) for node_id in range(self.size)),
            timeout_seconds,
            self.kubectl.describe_pods,
        )

    def until_replaced(self, node_id: int, uid: str, timeout_seconds: float = 180) -> None:
        """The pod of that uid has given way to another that is Ready."""
        self.kubectl.until(
            lambda: self.uids().get(node_id, uid) != uid and self.is_pod_ready(node_id),
            timeout_seconds,
            self.kubectl.describe_pods,
        )

"""Brokers whose pods are evicted: pods and a Broker at an API server, and a cluster to judge by."""

import asyncio
from collections.abc import Mapping
from typing import Any

from barnabas_client.errors import BrokerUnreachableError
from barnabas_operator.eviction.evictions import Evictions
from barnabas_operator.kubernetes.api import KubernetesApi, UnavailableError
from barnabas_operator.kubernetes.kinds import BROKER, NODE, POD, STATEFUL_SET
from barnabas_operator.reconcile.broker.cluster_state import ClusterView
from barnabas_operator.reconcile.broker.eviction_gate import Ruling
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from tests.operator.reconcile.broker.views import cluster, members, partition
from tests.support.simulated_clock import HandClock

NAMES = range(3)
HEALTHY = cluster(partition("orders", [0, 1, 2]), members=members(0, 1, 2))
SHORT = cluster(partition("orders", [0, 1, 2], [0, 1]), members=members(0, 1, 2))


class EvictionWorld:
    """Three brokers `demo-0` to `demo-2` in a namespace; `view` is what their cluster says."""

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.view: ClusterView | None = HEALTHY
        self.clock = HandClock()
        self.rulings: list[Ruling] = []
        self.is_slow = False
        self.is_silent = False  # the processes
        self.asked = 0
        self.asked_at_once_max = 0
        self._asking = 0

    def evictions(self, api: KubernetesApi | None = None) -> Evictions:
        """One replica's judgement."""
        return Evictions(
            api or self.api,
            self,
            self,
            self.clock,
            patience_seconds=3600,
            counted=self.rulings.append,
        )

    async def put_brokers(self, **annotations: str) -> None:
        """The Broker with all that an eviction is judged by."""
        broker = {
            "apiVersion": BROKER.api_version,
            "kind": "Broker",
            "metadata": {"name": "demo", "namespace": self.namespace, "annotations": annotations},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}},
        }
        await self.api.create(broker)
        labels = {"barnabas.dev/broker": "demo"}
        template = {"metadata": {"labels": labels}, "spec": pod_spec(None)}
        spec = {
            "replicas": 3,
            "serviceName": "demo-brokers",
            "selector": {"matchLabels": labels},
            "template": template,
        }
        await self.api.create(self._manifest(STATEFUL_SET.api_version, "StatefulSet", "demo", spec))
        for number in NAMES:
            await self.put_pod(f"demo-{number}", labels)

    async def put_pod(self, name: str, labels: dict[str, str]) -> None:
        """A ready pod on its node."""
        node = f"{self.namespace}-node"
        if await self.api.get(NODE, None, node) is None:
            await self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        pod = self._manifest("v1", "Pod", name, pod_spec(node))
        pod["metadata"]["labels"] = labels
        made = await self.api.create(pod)
        await self.api.patch_status(
            made,
            {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        )

    async def pod(self, number: int) -> dict[str, Any]:
        found = await self.api.get(POD, self.namespace, f"demo-{number}")
        assert found is not None
        return found

    async def note(self, number: int) -> str:
        annotations = (await self.pod(number))["metadata"].get("annotations") or {}
        return str(annotations.get("barnabas.dev/drain-requested", ""))

    async def clean_up(self) -> None:
        await self.api.delete(NODE, None, f"{self.namespace}-node")

    def _manifest(
        self, api_version: str, kind: str, name: str, spec: dict[str, Any]
    ) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}

    # The brokers, as the webhook asks them.

    async def cluster(self, namespace: str, name: str) -> Any:
        assert (namespace, name) == (self.namespace, "demo")
        self.asked += 1
        self._asking += 1
        self.asked_at_once_max = max(self.asked_at_once_max, self._asking)
        if self.is_slow:
            await asyncio.Event().wait()
        return self

    async def observe(self) -> ClusterView:
        await asyncio.sleep(0)
        if self.view is None:
            raise BrokerUnreachableError("nobody answers")
        return self.view

    async def forget(self, namespace: str, name: str) -> None:
        self._asking -= 1

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
        if self.is_silent:
            await asyncio.Event().wait()
        return {}


def pod_spec(node: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "broker", "image": "x"}]}
    if node is not None:
        spec["nodeName"] = node
    return spec


class NoWrites:
    """An API server that lets read and refuses the rest, as one without the rights does."""

    def __init__(self, api: KubernetesApi, error: Exception) -> None:
        self._api = api
        self._error = error
        self.get = api.get
        self.list = api.list

    async def patch(self, *_: Any, **__: Any) -> Any:
        raise self._error

    async def create(self, *_: Any) -> Any:
        raise self._error


class Away:
    """An API server that cannot be read."""

    async def get(self, *_: Any) -> Any:
        raise UnavailableError("away")

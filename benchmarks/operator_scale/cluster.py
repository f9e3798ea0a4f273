"""The Kubernetes around the measured operator, in a process of its own.

The API server in memory that the tests use, the resources, and what StatefulSets make: pods that
are ready at once. It counts requests by what they are, and says when all resources are ready.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from barnabas_operator.kubernetes.kinds import (
    BROKER,
    CONSUMER_GROUP,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STATEFUL_SET,
    TOPIC,
    Kind,
)
from barnabas_operator.kubernetes.kinds import NAMESPACE as NAMESPACE_KIND
from tests.support.fake_kubernetes import FakeKubernetes, Write
from tests.support.fake_kubernetes_store import Event, Manifest
from tests.support.willing_brokers import BROKERS_PER_SET

NAMESPACE = "shop"
PARTITIONS = 3
_COUNTED = (TOPIC, BROKER, CONSUMER_GROUP)
_NAMED = re.compile(
    r"^/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>status))?$"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many there are; topics and groups are spread evenly over the Brokers."""

    brokers: int
    topics: int
    groups: int


def serve(size: Size, directory: Path, pipe: Connection) -> None:
    """Serve until told to stop; for a process of its own."""
    asyncio.run(_Cluster(size, directory, pipe).run())


class _Cluster:
    def __init__(self, size: Size, directory: Path, pipe: Connection) -> None:
        self._size = size
        self._directory = directory
        self._pipe = pipe
        self._server = FakeKubernetes()
        self._unready: set[tuple[Kind, str]] = set()

    async def run(self) -> None:
        """Answer questions: `unready`, `requests`, `touch`; nothing ends it."""
        async with self._server as server:
            server.write_kubeconfig(self._directory / "kubeconfig")
            self._fill()
            server.store.events.clear()
            server.store.listeners.append(self._heard)
            self._pipe.send("ready")
            while (question := await asyncio.to_thread(self._pipe.recv)) != "stop":
                self._pipe.send(self._answered(question))

    def _answered(self, question: str) -> Any:
        match question.split():
            case ["unready"]:
                return len(self._unready)
            case ["requests"]:
                counts = Counter(_called(one) for one in self._server.requests)
                self._server.requests.clear()
                return counts
            case ["touch", name]:
                change = {"spec": {"config": {"retention.ms": 7_200_000}}}
                self._server.change(TOPIC, NAMESPACE, name, change)
                self._unready.add((TOPIC, name))
                return None
        raise ValueError(question)

    def _fill(self) -> None:
        size, store = self._size, self._server.store
        store.create(NAMESPACE_KIND, "", {"metadata": {"name": NAMESPACE}})
        for number in range(BROKERS_PER_SET):
            store.create(NODE, "", {"metadata": {"name": f"node{number}"}})
        storage = {"replicas": BROKERS_PER_SET, "storage": {"size": "10Gi"}}
        for number in range(size.brokers):
            self._create(BROKER, f"b{number:02}", storage)
        for number in range(size.topics):
            reference = {"brokerRef": {"name": f"b{number % size.brokers:02}"}}
            config = {"retention.ms": 3_600_000, "cleanup.policy": "delete"}
            spec = {**reference, "partitions": PARTITIONS, "replicas": 3, "config": config}
            self._create(TOPIC, f"topic-{number:05}", spec)
        for number in range(size.groups):
            reference = {"brokerRef": {"name": f"b{number % size.brokers:02}"}}
            self._create(CONSUMER_GROUP, f"group-{number:05}", reference)

    def _create(self, kind: Kind, name: str, spec: Manifest) -> None:
        self._server.store.create(kind, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
        self._unready.add((kind, name))

    def _heard(self, event: Event) -> None:
        _, kind, type_, one = event
        name = one["metadata"]["name"]
        if kind is STATEFUL_SET and type_ == "ADDED":
            # Outside of the request that made it, as a controller would.
            asyncio.get_running_loop().call_soon(self._make_pods, one)
        if kind not in _COUNTED:
            return
        if _is_ready(one):
            self._unready.discard((kind, name))
        else:
            self._unready.add((kind, name))

    def _make_pods(self, stateful_set: Manifest) -> None:
        name = stateful_set["metadata"]["name"]
        template = stateful_set["spec"]["template"]
        (claim,) = stateful_set["spec"]["volumeClaimTemplates"]
        common = {"apiVersion": "v1"}
        for number in range(stateful_set["spec"]["replicas"]):
            metadata = {
                "namespace": NAMESPACE,
                "name": f"data-{name}-{number}",
                "labels": claim["metadata"]["labels"],
            }
            self._server.put(
                {
                    **common,
                    "kind": PERSISTENT_VOLUME_CLAIM.kind,
                    "metadata": metadata,
                    "spec": {**claim["spec"], "storageClassName": "standard"},
                    "status": {"phase": "Bound", "capacity": {"storage": "10Gi"}},
                }
            )
            ready = {"type": "Ready", "status": "True"}
            self._server.put(
                {
                    **common,
                    "kind": POD.kind,
                    "metadata": {
                        **template["metadata"],
                        "namespace": NAMESPACE,
                        "name": f"{name}-{number}",
                    },
                    "spec": {**template["spec"], "nodeName": f"node{number}"},
                    "status": {
                        "conditions": [ready],
                        "podIP": f"10.0.{name[1:]}.{number}",
                        "containerStatuses": [{"name": "broker", "started": True}],
                    },
                }
            )


def _is_ready(one: Manifest) -> bool:
    """Whether its newest spec is said to be so."""
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and condition["observedGeneration"] == one["metadata"]["generation"]
        for condition in (one.get("status") or {}).get("conditions") or ()
    )


def _called(request: Write) -> str:
    """Verb and kind of a request; each page of a list counts."""
    found = _NAMED.match(request.path)
    if found is None:
        return "other"
    kind = f"{found['plural']}/{found['sub']}" if found["sub"] else found["plural"]
    if request.method == "GET":
        return f"{'get' if found['name'] else 'list or watch'} {kind}"
    return f"{_VERBS[request.method]} {kind}"

"""A Broker on a real API server: its schema's rules, and children that stay as they were applied.

There is no kubelet and no StatefulSet controller, so no pod comes up; what the API server makes of
manifests, and what it refuses, is the real thing.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.env import SystemClock
from barnabas_operator.kubernetes.api import InvalidError, KubernetesApi
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.kinds import BROKER, NAMESPACE, STATEFUL_SET, kind_of
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.broker.observed import ProcessView
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, Work
from tests.operator.test_broker_crd import COMPLETE
from tests.support.kstatus import kstatus
from tests.support.real_api_server import RealApiServer

EXTERNAL = {"type": "NodePort", "advertisedHost": "b{id}"}
SIMPLE = {"replicas": 3, "storage": {"size": "10Gi", "storageClassName": "fast"}}


class NobodyAnswers:
    """Brokers that never come up."""

    async def cluster(self, namespace: str, name: str) -> Any:
        raise AssertionError("no pod is ready, so nobody is asked")

    async def admin(self, namespace: str, name: str) -> Any:
        raise AssertionError("no pod is ready, so nobody is asked")

    async def statuses(self, addresses: Mapping[int, str]) -> dict[int, ProcessView]:
        return {}


def reconciler(api: KubernetesApi) -> BrokerReconciler:
    nobody = NobodyAnswers()
    settings = OperatorSettings(broker_image="barnabas:1")
    return BrokerReconciler(api, nobody, settings, SystemClock(), clusters=nobody, processes=nobody)


@asynccontextmanager
async def connected(server: RealApiServer, directory: Path, name: str) -> AsyncIterator[DynamicApi]:
    """A client and a namespace of the test's own."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig())
    async with new_client(await load_configuration(str(kubeconfig))) as client:
        client.user_agent = f"test-{name}"
        api = DynamicApi(client)
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield api
        await api.delete(NAMESPACE, None, name)


def broker(namespace: str, spec: Mapping[str, Any], name: str = "demo") -> dict[str, Any]:
    return {
        "apiVersion": BROKER.api_version,
        "kind": "Broker",
        "metadata": {"name": name, "namespace": namespace},
        "spec": copy.deepcopy(dict(spec)),
    }


def writes(server: RealApiServer, position: int, namespace: str) -> tuple[list[str], int]:
    """What was written in a namespace since a position of the audit log."""
    entries, end = server.writes_since(position)
    found = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in entries
        if f"/namespaces/{namespace}/" in entry["requestURI"]
    ]
    return found, end


@pytest.mark.parametrize("spec", [SIMPLE, COMPLETE["spec"]], ids=["simple", "complete"])
def test_children_are_accepted_and_not_written_again(
    spec: dict[str, Any], tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """operator.md 3.9: what the API server adds by itself is no difference."""
    namespace = f"children-{len(spec)}"
    key = Key(kind=Work.BROKER, namespace=namespace, name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, namespace) as api:
            await api.create(broker(namespace, {**spec, "paused": False}))
            operator = reconciler(api)
            await operator.reconcile(key)
            await operator.reconcile(key)
            _, position = writes(real_api_server, 0, namespace)
            await operator.reconcile(key)
            # Another one remembers nothing of what the API server writes in another way.
            await reconciler(api).reconcile(key)
            again, _ = writes(real_api_server, position, namespace)
            assert again == []
            status = (await api.get(BROKER, namespace, "demo") or {})["status"]
            assert status["ready"] == f"0/{spec['replicas']}"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "spec"), [("Broker", SIMPLE), ("Topic", {"partitions": 1}), ("ConsumerGroup", {})]
)
def test_what_the_operator_has_not_seen_yet_is_in_progress(
    kind: str, spec: dict[str, Any], tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Kstatus takes a resource without conditions for done."""
    name = f"unseen-{kind.lower()}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            await api.create({**broker(name, spec), "kind": kind})
            found = await api.get(kind_of(BROKER.api_version, kind), name, "demo") or {}
            assert kstatus(found) == "InProgress"

    asyncio.run(run())


def test_larger_volumes_make_the_stateful_set_anew(
    tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Its claim template cannot change; it is deleted without its pods and comes back."""
    key = Key(kind=Work.BROKER, namespace="growing", name="demo")

    async def run() -> None:
        async with connected(real_api_server, tmp_path, "growing") as api:
            await api.create(broker("growing", SIMPLE))
            operator = reconciler(api)
            await operator.reconcile(key)
            before = await api.get(STATEFUL_SET, "growing", "demo")
            size = {"spec": {"storage": {"size": "20Gi"}}}
            await api.patch(BROKER, "growing", "demo", size)
            async with asyncio.timeout(30):
                while True:
                    await operator.reconcile(key)
                    after = await api.get(STATEFUL_SET, "growing", "demo")
                    if after is not None and after["metadata"]["uid"] != before_uid(before):
                        break
            (claim,) = after["spec"]["volumeClaimTemplates"]
            assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"

    asyncio.run(run())


def before_uid(stateful_set: dict[str, Any] | None) -> str:
    assert stateful_set is not None
    return str(stateful_set["metadata"]["uid"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"storage": {"size": "5Gi"}}, "a volume cannot shrink"),
        ({"storage": {"storageClassName": "slow"}}, "storageClassName cannot change"),
        ({"storage": {"storageClassName": None}}, "storageClassName cannot change"),
        ({"maintenance": {"park": [1], "decommission": [2, 1]}}, "cannot give its partitions"),
        ({"replicas": -1}, "greater than or equal to 0"),
        (
            {"listeners": {"external": {"type": "NodePort", "advertisedHost": "x"}}},
            "brokers have to differ",
        ),
        (
            {"listeners": {"external": EXTERNAL | {"port": 9092}}},
            "the brokers' other ports",
        ),
        ({"podTemplate": {"containers": [{"name": "proxy"}]}}, "a container needs an image"),
        *(
            (
                {"podTemplate": {"containers": [{"name": "broker", field: value}]}},
                "only env, envFrom, volumeMounts and securityContext",
            )
            for field, value in {
                "image": "x",
                "command": ["x"],
                "args": ["x"],
                "ports": [{"containerPort": 1}],
                "resources": {},
                "livenessProbe": {},
                "lifecycle": {},
            }.items()
        ),
        (
            {
                "podTemplate": {
                    "containers": [{"name": "broker", "env": [{"name": "NODE_ID", "value": "7"}]}]
                }
            },
            "set by the operator",
        ),
        *(
            (
                {
                    "podTemplate": {
                        "containers": [
                            {"name": "broker", "volumeMounts": [{"name": "x", "mountPath": path}]}
                        ]
                    }
                },
                "nothing may be mounted",
            )
            for path in ("/", "/var/lib", "/var/lib/barnabas", "/var/lib/barnabas/x", "/tmp/")
        ),
        ({"podTemplate": {"initContainers": [{"name": "broker", "image": "x"}]}}, "named broker"),
        ({"podTemplate": {"volumes": [{"name": "data", "emptyDir": {}}]}}, "are the operator's"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(
    change: dict[str, Any], message: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """operator.md 5: by the API server itself, also while no operator runs."""

    async def run() -> None:
        async with connected(real_api_server, tmp_path, name) as api:
            await api.create(broker(name, SIMPLE))
            with pytest.raises(InvalidError, match=message):
                await api.patch(BROKER, name, "demo", {"spec": change})
            await api.patch(BROKER, name, "demo", {"spec": {"storage": {"size": "10.5Gi"}}})

    name = f"rules-{abs(hash(message + str(change))) % 10**8}"
    asyncio.run(run())


@pytest.mark.parametrize("name", ["1demo", "demo.x", "d" * 41])
def test_names_that_services_cannot_have_are_refused(
    name: str, tmp_path: Path, real_api_server: RealApiServer
) -> None:
    """Services and pods are named after it."""
    namespace = f"names-{len(name)}"

    async def run() -> None:
        async with connected(real_api_server, tmp_path, namespace) as api:
            with pytest.raises(InvalidError):
                await api.create(broker(namespace, SIMPLE, name))

    asyncio.run(run())

"""A cluster with one ConsumerGroup behind the reconciler of groups, and an API server over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas_client.errors import BrokerUnreachableError
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.kinds import BROKER, CONSUMER_GROUP
from barnabas_operator.reconcile.group.group_reconciler import GroupReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import Key, KeyKind
from barnabas_operator.work.watch_cache import WatchCache
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.memory_groups import MemoryGroups
from tests.support.simulated_clock import SimulatedClock

KEY = Key(kind=KeyKind.GROUPS, namespace="kafka", name="main")
EARLIEST = {"id": "r1", "to": "earliest"}


class ReachableCluster:
    """What `AdminPool` is to a reconciler; the cluster can be taken away."""

    def __init__(self) -> None:
        self.is_away = False
        self.unreachable = 0.0

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[object]:
        if self.is_away:
            raise BrokerUnreachableError("no broker answers")
        yield self

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        return self.unreachable


class World:
    """An API server with a Broker and the ConsumerGroup `app/billing`, and its cluster."""

    def __init__(self, kubernetes: FakeKubernetes, api: DynamicApi) -> None:
        self.kubernetes = kubernetes
        self.cluster = MemoryGroups(3)
        self.admins = ReachableCluster()
        self.clock = SimulatedClock()
        self._again_seconds = 0.0
        self.api = api
        self.restart_operator()
        for namespace in ("kafka", "app"):
            kubernetes.put(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        self.put_broker("main")

    def restart_operator(self) -> None:
        """Another process: nothing but the API server remembers."""
        # Every pass lists: what these tests put is known to it, as if watching had no delay.
        cache = WatchCache(self.api, lambda: self.clock.monotonic_ms() / 1000, list_seconds=0)
        self.reconciler = GroupReconciler(
            self.api,
            self.admins,  # type: ignore[arg-type]
            OperatorSettings(),
            self.clock,
            cache,
            make_gateway=lambda admin: self.cluster,
        )

    def put_broker(self, name: str, **metadata: Any) -> None:
        """A Broker that takes resources of every namespace, unless its metadata says otherwise."""
        metadata = {"annotations": {"barnabas.dev/allowed-namespaces": "*"}, **metadata}
        self.kubernetes.put(
            {
                "apiVersion": "barnabas.dev/v1alpha1",
                "kind": "Broker",
                "metadata": {"namespace": "kafka", "name": name, **metadata},
                "spec": {},
            }
        )

    def set_cluster_id(self, cluster_id: str, name: str = "main") -> None:
        """As the status of the Broker has it once brokers have answered."""
        status = {"clusterId": cluster_id}
        self.kubernetes.store.update(
            BROKER, "kafka", name, lambda old: {**old, "status": status}, is_status=True
        )

    def put(self, name: str = "billing", namespace: str = "app", **spec: Any) -> None:
        reference = {"brokerRef": {"name": "main", "namespace": "kafka"}}
        self.kubernetes.put(
            {
                "apiVersion": "barnabas.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"namespace": namespace, "name": name},
                "spec": {**reference, "groupId": "billing", **spec},
            }
        )

    def status(self, name: str = "billing", namespace: str = "app") -> dict[str, Any]:
        found: dict[str, Any] = self.kubernetes.store.get(CONSUMER_GROUP, namespace, name)
        return found.get("status") or {}

    def condition(self, type_: str, **which: str) -> tuple[str, str]:
        for condition in self.status(**which)["conditions"]:
            if condition["type"] == type_:
                return condition["status"], condition["reason"]
        raise AssertionError(f"no {type_}")

    async def reconcile(self) -> float | None:
        """The pass that comes when nothing has changed for as long as it was put off."""
        self.clock.advance(int(self._again_seconds * 1000))
        again = await self.reconciler.reconcile(KEY)
        self._again_seconds = again or 0.0
        return again


@pytest.fixture
def in_world(tmp_path: Path) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    """Runs a coroutine function in a world."""

    def run(story: Callable[[World], Awaitable[None]]) -> None:
        async def tell() -> None:
            async with FakeKubernetes() as kubernetes:
                kubeconfig = kubernetes.write_kubeconfig(tmp_path / "kubeconfig")
                client: Any = new_client(await load_configuration(str(kubeconfig)))
                try:
                    await story(World(kubernetes, DynamicApi(client)))
                finally:
                    await client.close()

        asyncio.run(tell())

    return run


InWorld = Callable[[Callable[[World], Awaitable[None]]], None]

"""The real API server for reconcilers of brokers."""

import copy
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from barnabas_client.env import SystemClock
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.kinds import (
    BROKER,
    NAMESPACE,
)
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.broker.observed import (
    ProcessView,
)
from barnabas_operator.settings import OperatorSettings
from tests.support.real_api_server import RealApiServer


class NobodyAnswers:
    """Brokers that never come up."""

    async def cluster(self, namespace: str, name: str) -> Any:
        raise AssertionError("no pod is ready, so nobody is asked")

    async def admin(self, namespace: str, name: str) -> Any:
        raise AssertionError("no pod is ready, so nobody is asked")

    async def statuses(
        self, addresses: Mapping[int, str], access: Any = None
    ) -> dict[int, ProcessView]:
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

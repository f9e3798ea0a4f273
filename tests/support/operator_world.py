"""What a test of the whole operator needs around it: an API server, brokers, and a user's hands.

The same test runs on the fake API server and, where its binary is cached, on a real one. All of a
test is in a namespace of its own; the user's requests go the same way as the operator's and are
told apart by their user agent.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from barnabas_broker.server import Server
from barnabas_operator.kubernetes.connection import load_configuration, new_client
from barnabas_operator.kubernetes.dynamic_api import DynamicApi
from barnabas_operator.kubernetes.kinds import BROKER, NAMESPACE, TOPIC, Kind
from barnabas_operator.kubernetes.objects import BOOTSTRAP_SERVERS_ANNOTATION
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import KeyKind
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.in_process_broker import running_broker
from tests.support.operator_thread import operator_settings, running_operator
from tests.support.real_api_server import RealApiServer

DEADLINE_SECONDS = 30
# The user agents of the operator's two clients.
_OPERATOR_AGENTS = ("barnabas-operator", "kopf")

Condition = dict[str, Any]


class OperatorWorld:
    """One test's namespace, with the API server as a user sees it."""

    def __init__(
        self,
        api: DynamicApi,
        kubeconfig: Path,
        namespace: str,
        server: FakeKubernetes | RealApiServer,
    ) -> None:
        self.api = api
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.server = server
        self._read_to = 0

    @property
    def fake(self) -> FakeKubernetes:
        """The fake server, for tests that inject faults."""
        assert isinstance(self.server, FakeKubernetes)
        return self.server

    def settings(self, **fields: Any) -> OperatorSettings:
        """Settings of an operator that minds this namespace only."""
        own = {"namespaces": (self.namespace,), "operator_namespace": self.namespace}
        return operator_settings(self.kubeconfig, **{**own, **fields})

    def manifest(
        self, kind: Kind, name: str, spec: dict[str, Any], **metadata: Any
    ) -> dict[str, Any]:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"namespace": self.namespace, "name": name, **metadata},
            "spec": spec,
        }

    async def put_broker(self, bootstrap: str, name: str = "demo", **annotations: str) -> None:
        """A Broker resource for brokers that run elsewhere."""
        found = {BOOTSTRAP_SERVERS_ANNOTATION: bootstrap, **annotations}
        await self.api.create(self.manifest(BROKER, name, {}, annotations=found))

    async def put_topic(self, name: str, **spec: Any) -> dict[str, Any]:
        return await self.api.create(self.manifest(TOPIC, name, spec))

    async def change_topic(self, name: str, patch: dict[str, Any]) -> None:
        await self.api.patch(TOPIC, self.namespace, name, patch)

    async def delete_topic(self, name: str) -> None:
        await self.api.delete(TOPIC, self.namespace, name)

    async def topic(self, name: str) -> dict[str, Any]:
        found = await self.api.get(TOPIC, self.namespace, name)
        assert found is not None, f"there is no Topic {name}"
        return found

    async def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = (await self.topic(name)).get("status") or {}
        return status

    async def condition(self, name: str, type_: str = "Ready") -> Condition:
        """The condition of a Topic, empty while there is none."""
        return _condition(await self.topic(name), type_)

    async def until_ready(self, *names: str) -> None:
        """Wait until Topics are as their newest specs declare."""
        for name in names:
            await self.until_condition(name, "True")

    async def until_condition(
        self, name: str, status: str, reason: str | None = None, type_: str = "Ready"
    ) -> Condition:
        """Wait for a condition of the newest spec of a Topic."""
        found: Condition = {}

        async def holds() -> bool:
            nonlocal found
            topic = await self.api.get(TOPIC, self.namespace, name) or {}
            found = _condition(topic, type_)
            return (
                found.get("status") == status
                and found["observedGeneration"] == topic["metadata"]["generation"]
                and reason in (None, found["reason"])
            )

        await until(holds, lambda: f"{name}: {found}")
        return found

    async def until_gone(self, kind: Kind, name: str) -> None:
        where = self.namespace if kind.is_namespaced else None

        async def is_gone() -> bool:
            return await self.api.get(kind, where, name) is None

        await until(is_gone, lambda: f"{kind.kind} {name} is still there")

    def writes(self) -> list[tuple[str, str]]:
        """Verb and path of what the operator has written since the last call, without Leases."""
        if isinstance(self.server, FakeKubernetes):
            found = self.server.writes[self._read_to :]
            self._read_to += len(found)
            return [
                (one.method, one.path) for one in found if one.agent.startswith(_OPERATOR_AGENTS)
            ]
        entries, self._read_to = self.server.writes_since(self._read_to)
        return [
            (str(entry["verb"]), str(entry["requestURI"]))
            for entry in entries
            if entry.get("userAgent", "").startswith(_OPERATOR_AGENTS)
            and f"/{self.namespace}/" in entry["requestURI"]
        ]

    @asynccontextmanager
    async def operator(
        self, works: Collection[KeyKind] = (KeyKind.TOPICS,), **fields: Any
    ) -> AsyncIterator[Any]:
        """A running operator."""
        async with running_operator(self.settings(**fields), works) as operator:
            yield operator


def _condition(manifest: dict[str, Any], type_: str) -> Condition:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type_), {})


async def until(
    condition: Callable[[], Awaitable[bool]], describe: Callable[[], str] = lambda: "condition"
) -> None:
    """Wait until a condition holds. Raises: AssertionError at the deadline."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await condition():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {DEADLINE_SECONDS} s: {describe()}") from None


@asynccontextmanager
async def operator_world(
    directory: Path, real: RealApiServer | None
) -> AsyncIterator[OperatorWorld]:
    """A world on the fake API server, or in a namespace of the real one."""
    if real is None:
        async with FakeKubernetes() as server:
            kubeconfig = server.write_kubeconfig(directory / "kubeconfig")
            async with _world(directory, kubeconfig, server) as world:
                yield world
        return
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(real.kubeconfig())
    async with _world(directory, kubeconfig, real) as world:
        yield world
        for topic in await world.api.list(TOPIC, namespace=world.namespace):
            # Whatever a failed test has left must not hold up the namespace.
            free = {"metadata": {"finalizers": None}}
            await world.api.patch(TOPIC, world.namespace, topic["metadata"]["name"], free)
        await world.api.delete(NAMESPACE, None, world.namespace)


@asynccontextmanager
async def _world(
    directory: Path, kubeconfig: Path, server: FakeKubernetes | RealApiServer
) -> AsyncIterator[OperatorWorld]:
    namespace = f"test-{secrets.token_hex(4)}"
    async with new_client(await load_configuration(str(kubeconfig))) as client:
        client.user_agent = "tests"
        api = DynamicApi(client)
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await api.create(made)
        world = OperatorWorld(api, kubeconfig, namespace, server)
        world.writes()
        yield world


@asynccontextmanager
async def world_with_broker(
    directory: Path, real: RealApiServer | None, **properties: str
) -> AsyncIterator[tuple[OperatorWorld, Server]]:
    """A world with one broker that runs in the test's loop, and its Broker resource `demo`."""
    async with (
        operator_world(directory, real) as world,
        running_broker(directory / "data", **properties) as broker,
    ):
        await world.put_broker(bootstrap_of(broker))
        yield world, broker


def bootstrap_of(broker: Server) -> str:
    return f"127.0.0.1:{broker.port}"

"""The arbiter's backends with one face for the conformance tests: clients, faults, absence, damage.

Memory and file have their faults around the client; etcd and Kubernetes in a gateway before the
server, so that requests, timeouts and statuses are real ones.
"""

import base64
import json
import os
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import aiohttp

from barnabas_broker.arbiter.arbiter import Arbiter
from barnabas_broker.arbiter.etcd import EtcdArbiter, EtcdSettings
from barnabas_broker.arbiter.kubernetes_lease import KubernetesLeaseArbiter
from barnabas_broker.arbiter.local_file import LocalFileArbiter
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.env.disk import RealDisk
from barnabas_broker.env.kubernetes_api import KubernetesAccess, KubernetesApi
from tests.support.arbiter_faults import Fault, FaultyArbiter
from tests.support.fake_api_server import FakeApiServer
from tests.support.faulty_gateway import FaultyGateway
from tests.support.memory_arbiter import MemoryArbiter, MemoryStore
from tests.support.simulated_clock import SimulatedClock
from tests.support.simulated_disk import SimulatedDisk

TIMEOUT_MS = 20_000
POLL_INTERVAL_MS = 1
REAL_API_SERVER = os.environ.get("BARNABAS_KUBERNETES_SERVER")


class StoreUnderTest(Protocol):
    """One store that is empty at first."""

    faults: deque[Fault]  # befall the next swaps, in order

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Arbiter:
        """A client of its own; closed with the store."""
        ...

    def set_away(self, is_away: bool) -> None: ...

    async def let_late_arrive(self) -> None:
        """Let the swaps that a fault has held up reach the store."""
        ...

    async def damage(self) -> None:
        """Replace what is stored by what is no record."""
        ...

    async def clear(self) -> None:
        """What an operator does to force an election."""
        ...


MakeStore = Callable[[], AbstractAsyncContextManager[StoreUnderTest]]
"""Opens an empty store."""


class WrappedStore:
    """Memory or file, with faults around the client."""

    def __init__(self, memory: MemoryStore | None) -> None:
        self.faults: deque[Fault] = deque()
        self._memory = memory
        self._clients: list[FaultyArbiter] = []
        self._disk = SimulatedDisk()
        self._disk.make_directories("data")

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Arbiter:
        inner: Arbiter = LocalFileArbiter(
            self._disk, SimulatedClock(), "data/arbiter.json", poll_interval_ms=POLL_INTERVAL_MS
        )
        if self._memory is not None:
            inner = MemoryArbiter(self._memory)
        self._clients.append(FaultyArbiter(inner, self.faults))
        return self._clients[-1]

    def set_away(self, is_away: bool) -> None:
        for client in self._clients:
            client.is_cut_off = is_away

    async def let_late_arrive(self) -> None:
        for client in self._clients:
            await client.let_late_arrive()

    async def damage(self) -> None:
        if self._memory is not None:
            self._memory.damage()
        else:
            self._disk.write_atomically("data/arbiter.json", b"{}")

    async def clear(self) -> None:
        if self._memory is not None:
            self._memory.put(None)
        else:
            self._disk.remove("data/arbiter.json")


class GatewayStore:
    """What etcd and Kubernetes have in common: faults in the gateway."""

    def __init__(self, gateway: FaultyGateway, stack: AsyncExitStack) -> None:
        self.gateway = gateway
        self.faults = gateway.faults
        self.let_late_arrive = gateway.let_late_arrive
        self._stack = stack

    def set_away(self, is_away: bool) -> None:
        self.gateway.is_away = is_away

    def owned(self, arbiter: Arbiter) -> Arbiter:
        self._stack.push_async_callback(arbiter.close)
        return arbiter


class EtcdStore(GatewayStore):
    """A key of its own in a real etcd."""

    key = ""

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Arbiter:
        return self.owned(
            EtcdArbiter(
                EtcdSettings(
                    endpoints=(self.gateway.address,),
                    key=self.key,
                    request_timeout_ms=timeout_ms,
                    poll_interval_ms=POLL_INTERVAL_MS,
                )
            )
        )

    async def damage(self) -> None:
        await self._call("put", value=base64.b64encode(b"{}").decode())

    async def clear(self) -> None:
        await self._call("deleterange")

    async def _call(self, method: str, **fields: str) -> None:
        document = {"key": base64.b64encode(self.key.encode()).decode(), **fields}
        url = f"{self.gateway.target}/v3/kv/{method}"
        async with aiohttp.ClientSession() as session, session.post(url, json=document) as reply:
            reply.raise_for_status()


class KubernetesStore(GatewayStore):
    """A Lease of its own, of the fake API server or of a real one."""

    namespace = ""
    name = ""
    token_file: str | None = None

    def open(self, timeout_ms: int = TIMEOUT_MS) -> Arbiter:
        access = KubernetesAccess(self.gateway.address, self.token_file, None, timeout_ms)
        disk = RealDisk()
        self._stack.callback(disk.close)
        api = KubernetesApi(disk, SystemClock(), access)
        return self.owned(KubernetesLeaseArbiter(api, self.namespace, self.name, POLL_INTERVAL_MS))

    async def damage(self) -> None:
        lease = await self._call("GET")
        lease["metadata"]["annotations"] = {}
        await self._call("PUT", lease)

    async def clear(self) -> None:
        await self._call("DELETE")

    async def _call(self, method: str, lease: object = None) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"
        headers = {}
        if self.token_file is not None:
            with open(self.token_file) as file:
                headers["Authorization"] = f"Bearer {file.read().strip()}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, self.gateway.address + path, json=lease, headers=headers
            ) as reply,
        ):
            reply.raise_for_status()
            document: dict[str, Any] = json.loads(await reply.read())
        return document


@asynccontextmanager
async def memory_store() -> AsyncIterator[StoreUnderTest]:
    yield WrappedStore(MemoryStore())


@asynccontextmanager
async def file_store() -> AsyncIterator[StoreUnderTest]:
    yield WrappedStore(None)


@asynccontextmanager
async def etcd_store(endpoint: str) -> AsyncIterator[StoreUnderTest]:
    conflict = {"header": {"revision": "1"}}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            FaultyGateway(endpoint, lambda _, path: path.endswith("/txn"), (200, conflict))
        )
        store = EtcdStore(gateway, stack)
        store.key = f"barnabas/{uuid.uuid4()}"
        yield store


@asynccontextmanager
async def kubernetes_store() -> AsyncIterator[StoreUnderTest]:
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(FakeApiServer())
        yield await _kubernetes_store(stack, fake.address, fake.namespace)


@asynccontextmanager
async def real_kubernetes_store() -> AsyncIterator[StoreUnderTest]:
    """A real API server: `BARNABAS_KUBERNETES_SERVER` (https://host:port), `..._NAMESPACE`,
    `..._TOKEN_FILE` and `..._CA_FILE`; the Lease is removed afterwards.
    """
    assert REAL_API_SERVER is not None
    environment = os.environ
    async with AsyncExitStack() as stack:
        store = await _kubernetes_store(
            stack,
            REAL_API_SERVER,
            environment.get("BARNABAS_KUBERNETES_NAMESPACE", "default"),
            environment.get("BARNABAS_KUBERNETES_CA_FILE"),
        )
        store.token_file = environment.get("BARNABAS_KUBERNETES_TOKEN_FILE")
        try:
            yield store
        finally:
            store.set_away(False)
            try:
                await store.clear()
            except aiohttp.ClientResponseError as error:
                if error.status != 404:
                    raise


async def _kubernetes_store(
    stack: AsyncExitStack, server: str, namespace: str, authority_file: str | None = None
) -> KubernetesStore:
    conflict = {"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}
    gateway = await stack.enter_async_context(
        FaultyGateway(
            server,
            lambda method, _: method in ("POST", "PUT"),
            (409, conflict),
            target_authority_file=authority_file,
        )
    )
    store = KubernetesStore(gateway, stack)
    store.namespace, store.name = namespace, f"arbiter-{uuid.uuid4()}"
    return store

"""One admin client for each cluster, shared by all that is reconciled there.

Invariants: a cluster has at most one client; no request that changes something is sent, or sent
again, unless the guard lets it; a cluster that cannot be reached is tried by one caller at a time
and not again at once, one that somebody else runs later and later, so that it does not keep all
workers waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.config.options import AdminOptions
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator.gateway.client_access import ClientAccess, read_access
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.kinds import BROKER
from barnabas_operator.kubernetes.objects import (
    BOOTSTRAP_SERVERS_ANNOTATION,
    annotations_of,
    is_elsewhere,
    name_of,
    namespace_of,
)
from barnabas_operator.security_spec import CLIENTS_PORT, SECURE_REPLICATION_PORT, SecurityPhase
from barnabas_protocol.backoff import ExponentialBackoff

KAFKA_PORT = 9092
# A cluster that has just been found away is not tried again for this long: longer and longer with
# brokers that somebody else runs, and whose address may be anything.
_CERTIFICATE_MS = 60_000
_BACKOFF = ExponentialBackoff(3000, 60_000)


@dataclass(slots=True)
class _Cluster:
    """What is known of one cluster."""

    servers: str = ""
    certificate: tuple[str, str] | None = None  # namespace and name of a Broker that is secure
    access: ClientAccess | None = None
    access_at_ms: int = 0
    admin: Admin | None = None
    admin_access: ClientAccess | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failed_at_ms: int = 0
    failures: int = 0
    is_elsewhere: bool = False
    error: BarnabasError | None = None
    unreachable_since_ms: int | None = None


class AdminPool:
    """The clients; close it in the loop that used it."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        *,
        timeout_seconds: float = 15,
        client_id: str = "",
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` raises KubernetesError where nothing may be changed any more."""
        self._guard = guard
        self._api = api
        self._clock = clock
        self._timeout_ms = int(timeout_seconds * 1000)
        self._client_id = client_id or "barnabas-operator"
        self._clusters: dict[tuple[str, str], _Cluster] = {}

    def learn(self, broker: Mapping[str, Any]) -> None:
        """Take a Broker's address from its resource."""
        cluster = self._clusters.setdefault((namespace_of(broker), name_of(broker)), _Cluster())
        servers = operator_servers(broker)
        cluster.is_elsewhere = is_elsewhere(broker)
        if cluster.servers != servers:
            cluster.servers, cluster.error, cluster.failures = servers, None, 0
            cluster.access = None
            is_secure = phase_of(broker) >= SecurityPhase.BROKERS and not cluster.is_elsewhere
            mine = namespace_of(broker), name_of(broker)
            cluster.certificate = mine if is_secure else None

    async def admin(self, namespace: str, name: str) -> Admin:
        """The started client of a Broker's cluster.

        Raises: BarnabasError if the cluster cannot be reached; KubernetesError.
        """
        cluster = self._clusters.setdefault((namespace, name), _Cluster())
        if not cluster.servers:
            broker = await self._api.get(BROKER, namespace, name)
            self.learn(broker or {"metadata": {"namespace": namespace, "name": name}})
        async with cluster.lock:
            return await self._started(cluster)

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[Admin]:
        """The client, for a block whose errors tell whether the cluster can be reached."""
        try:
            yield await self.admin(namespace, name)
        except BarnabasError:
            cluster = self._clusters.get((namespace, name))
            if cluster is not None and cluster.unreachable_since_ms is None:
                cluster.unreachable_since_ms = self._clock.monotonic_ms()
            raise
        # It may have been forgotten in the block: its Broker has gone.
        if (cluster := self._clusters.get((namespace, name))) is not None:
            cluster.unreachable_since_ms = None

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        """For how long the cluster has not answered, 0 while it does."""
        cluster = self._clusters.get((namespace, name))
        if cluster is None or cluster.unreachable_since_ms is None:
            return 0.0
        return (self._clock.monotonic_ms() - cluster.unreachable_since_ms) / 1000

    async def forget(self, namespace: str, name: str) -> None:
        """Close the client of a Broker that is gone."""
        cluster = self._clusters.pop((namespace, name), None)
        if cluster is not None and cluster.admin is not None:
            await cluster.admin.close()

    async def close(self) -> None:
        """Close all clients."""
        for namespace, name in tuple(self._clusters):
            await self.forget(namespace, name)

    async def _started(self, cluster: _Cluster) -> Admin:
        access = await self._access(cluster)
        if cluster.admin is not None:
            if cluster.admin_access == access:
                return cluster.admin
            await cluster.admin.close()
            cluster.admin = None
        now = self._clock.monotonic_ms()
        if cluster.error is not None and now - cluster.failed_at_ms < _pause_ms(cluster):
            raise cluster.error
        servers = access.servers
        admin = self._client(access)
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await admin.start()
        except TimeoutError as error:
            await admin.close()
            cluster.failed_at_ms = self._clock.monotonic_ms()
            cluster.error = RetriableError(f"no answer from {servers}")
            cluster.failures += 1
            raise cluster.error from error
        except BarnabasError as error:
            await admin.close()
            cluster.failed_at_ms = self._clock.monotonic_ms()
            cluster.error = error
            cluster.failures += 1
            raise
        except asyncio.CancelledError:
            # Who asked has no more time; the connections must not stay.
            await admin.close()
            raise
        cluster.error, cluster.failures = None, 0
        cluster.admin, cluster.admin_access = admin, access
        return admin

    def _client(self, access: ClientAccess) -> Admin:
        options: AdminOptions = {
            "client_id": self._client_id,
            "default_api_timeout_ms": self._timeout_ms,
            "request_timeout_ms": self._timeout_ms,
            **access.options(),
        }
        return Admin(access.servers, before_change=self._guard, **options)

    async def _access(self, cluster: _Cluster) -> ClientAccess:
        """How to connect; the certificate is read anew now and then, since it is renewed.

        Raises: RetriableError where there is none yet; KubernetesError.
        """
        if cluster.certificate is None:
            return ClientAccess(servers=cluster.servers)
        now = self._clock.monotonic_ms()
        if cluster.access is not None and now - cluster.access_at_ms < _CERTIFICATE_MS:
            return cluster.access
        namespace, name = cluster.certificate
        access = await read_access(self._api, namespace, name, cluster.servers)
        cluster.access, cluster.access_at_ms = access, now
        return access


def _pause_ms(cluster: _Cluster) -> int:
    """How long a cluster that was found away is not tried again."""
    return _BACKOFF.wait_ms(cluster.failures - 1 if cluster.is_elsewhere else 0)


def bootstrap_servers(broker: Mapping[str, Any]) -> str:
    """Where clients reach a Broker's cluster: its annotation, else its Service."""
    named = annotations_of(broker).get(BOOTSTRAP_SERVERS_ANNOTATION)
    port = CLIENTS_PORT if phase_of(broker) is SecurityPhase.SECURE else KAFKA_PORT
    return named or f"{name_of(broker)}-bootstrap.{namespace_of(broker)}.svc:{port}"


def operator_servers(broker: Mapping[str, Any]) -> str:
    """Where the operator does: by its certificate on the brokers' own listener, where it can."""
    if is_elsewhere(broker) or phase_of(broker) < SecurityPhase.BROKERS:
        return bootstrap_servers(broker)
    host = f"{name_of(broker)}-brokers.{namespace_of(broker)}.svc"
    return f"{host}:{SECURE_REPLICATION_PORT}"


def phase_of(broker: Mapping[str, Any]) -> SecurityPhase:
    """How far a Broker is secure, by its status."""
    name = str(((broker.get("status") or {}).get("security") or {}).get("phase") or "")
    return next((one for one in SecurityPhase if one.text == name), SecurityPhase.PLAIN)

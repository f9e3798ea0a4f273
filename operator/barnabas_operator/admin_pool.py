"""One admin client for each cluster, shared by all that is reconciled there.

Invariants: a cluster has at most one client; no request that changes something is sent, or sent
again, unless the guard lets it; a cluster that cannot be reached is tried by one caller at a time
and not again at once, so that it does not keep all workers waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator.kubernetes.api import KubernetesApi
from barnabas_operator.kubernetes.kinds import BROKER
from barnabas_operator.kubernetes.objects import (
    BOOTSTRAP_SERVERS_ANNOTATION,
    annotations_of,
    name_of,
    namespace_of,
)

KAFKA_PORT = 9092
# A cluster that has just been found away is not tried again for this long.
_PAUSE_MS = 3000


@dataclass(slots=True)
class _Place:
    """What is known of one cluster."""

    servers: str = ""
    admin: Admin | None = None
    admin_servers: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failed_at_ms: int = 0
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
        self._places: dict[tuple[str, str], _Place] = {}

    def learn(self, broker: Mapping[str, Any]) -> None:
        """Take a Broker's address from its resource."""
        place = self._places.setdefault((namespace_of(broker), name_of(broker)), _Place())
        place.servers = bootstrap_servers(broker)

    async def admin(self, namespace: str, name: str) -> Admin:
        """The started client of a Broker's cluster.

        Raises: BarnabasError if the cluster cannot be reached; KubernetesError.
        """
        place = self._places.setdefault((namespace, name), _Place())
        if not place.servers:
            broker = await self._api.get(BROKER, namespace, name)
            unknown = {"metadata": {"namespace": namespace, "name": name}}
            place.servers = bootstrap_servers(broker or unknown)
        async with place.lock:
            return await self._started(place)

    @asynccontextmanager
    async def using(self, namespace: str, name: str) -> AsyncIterator[Admin]:
        """The client, for a block whose errors tell whether the cluster can be reached."""
        try:
            yield await self.admin(namespace, name)
        except BarnabasError:
            place = self._places.get((namespace, name))
            if place is not None and place.unreachable_since_ms is None:
                place.unreachable_since_ms = self._clock.monotonic_ms()
            raise
        # It may have been forgotten in the block: its Broker has gone.
        if (place := self._places.get((namespace, name))) is not None:
            place.unreachable_since_ms = None

    def unreachable_seconds(self, namespace: str, name: str) -> float:
        """For how long the cluster has not answered, 0 while it does."""
        place = self._places.get((namespace, name))
        if place is None or place.unreachable_since_ms is None:
            return 0.0
        return (self._clock.monotonic_ms() - place.unreachable_since_ms) / 1000

    async def forget(self, namespace: str, name: str) -> None:
        """Close the client of a Broker that is gone."""
        place = self._places.pop((namespace, name), None)
        if place is not None and place.admin is not None:
            await place.admin.close()

    async def close(self) -> None:
        """Close all clients."""
        for namespace, name in tuple(self._places):
            await self.forget(namespace, name)

    async def _started(self, place: _Place) -> Admin:
        if place.admin is not None:
            if place.admin_servers == place.servers:
                return place.admin
            await place.admin.close()
            place.admin = None
        now = self._clock.monotonic_ms()
        if place.error is not None and now - place.failed_at_ms < _PAUSE_MS:
            raise place.error
        servers = place.servers
        admin = Admin(
            servers,
            before_change=self._guard,
            client_id=self._client_id,
            default_api_timeout_ms=self._timeout_ms,
            request_timeout_ms=self._timeout_ms,
        )
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await admin.start()
        except TimeoutError as error:
            await admin.close()
            place.failed_at_ms = self._clock.monotonic_ms()
            place.error = RetriableError(f"no answer from {place.servers}")
            raise place.error from error
        except BarnabasError as error:
            await admin.close()
            place.failed_at_ms = self._clock.monotonic_ms()
            place.error = error
            raise
        except asyncio.CancelledError:
            # Who asked has no more time; the connections must not stay.
            await admin.close()
            raise
        place.error = None
        place.admin, place.admin_servers = admin, servers
        return admin


def bootstrap_servers(broker: Mapping[str, Any]) -> str:
    """Where to reach a Broker's cluster: its annotation, else its Service."""
    named = annotations_of(broker).get(BOOTSTRAP_SERVERS_ANNOTATION)
    return named or f"{name_of(broker)}-bootstrap.{namespace_of(broker)}.svc:{KAFKA_PORT}"

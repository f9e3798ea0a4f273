"""The parts of a started client, joined: connections, metadata, coordinators.

It exists from `Client.start` on, because all of it needs the running loop.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata as distribution
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import (
    BarnabasError,
    BrokerUnreachableError,
    RetriableError,
)
from barnabas_client.network.coordinators import CoordinatorCache, CoordinatorType
from barnabas_client.network.login import login_of
from barnabas_client.network.metadata_refresher import MetadataRefresher
from barnabas_client.network.metadata_source import MetadataSource
from barnabas_client.network.network_client import NetworkClient, newest_version
from barnabas_client.network.node_connections import COORDINATOR_BASE
from barnabas_client.network.tls import TlsContexts
from barnabas_protocol.api import ApiKey

_LOWEST_VERSION_BY_TYPE = {
    CoordinatorType.GROUP: 0,
    CoordinatorType.TRANSACTION: 1,
    CoordinatorType.SHARE: 6,
}


class RunningClient:
    """What `Client` calls; it adds nothing of its own but the wiring."""

    def __init__(
        self,
        settings: ClientSettings,
        environment: Environment,
        cache: MetadataCache,
        *,
        client_id: str,
        on_metadata: Callable[[ClusterMetadata], None],
    ) -> None:
        self.network = NetworkClient(
            settings,
            environment,
            client_id=client_id,
            software_version=distribution.version("barnabas"),
            tls=TlsContexts(settings),
            login=login_of(settings),
            on_disconnect=self._disconnected,
        )
        source = MetadataSource(
            self.network, cache, environment, lambda: self.refresher.failing_since_ms
        )

        def publish(metadata: ClusterMetadata) -> None:
            self.network.update_metadata(metadata)
            on_metadata(metadata)

        self.refresher = MetadataRefresher(
            cache,
            settings,
            environment,
            fetch=source.fetch,
            last_tried=lambda: self.network.last_tried,
            on_metadata=publish,
        )
        self.coordinators = CoordinatorCache(
            version=self._coordinator_version, request=self._request, learn=self.network.learn
        )

    async def close(self) -> None:
        """End every task and connection."""
        await self.refresher.close()
        await self.network.connections.close()

    def _disconnected(self, node_id: int, error: BarnabasError) -> None:
        """Look again for what the lost broker led or coordinated (CLI-5)."""
        if node_id >= COORDINATOR_BASE:
            self.coordinators.forget_node(node_id)
        if node_id >= 0:
            self.refresher.request()

    async def _coordinator_version(self, kind: CoordinatorType) -> tuple[int, int]:
        """A broker that can find coordinators, and in which version."""
        last: BarnabasError = BrokerUnreachableError("no broker of the cluster is known")
        for node_id in self.network.candidates():
            try:
                connection = await self.network.connected(
                    node_id, self.network.settings.request_timeout_ms
                )
            except RetriableError as error:
                last = error
                continue
            lowest = _LOWEST_VERSION_BY_TYPE[kind]
            return node_id, newest_version(connection, ApiKey.FIND_COORDINATOR, minimum=lowest)
        self.refresher.request()
        raise last

    async def _request(self, node_id: int, request: Any, version: int) -> Any:
        return await self.network.request(node_id, request, version, None)

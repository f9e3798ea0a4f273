"""The parts of a started client, joined: brokers, metadata, coordinators.

It exists from `Client.start` on, because all of it needs the running loop.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from importlib import metadata as distribution
from typing import Any

from barnabas_client.cluster.metadata import ClusterMetadata
from barnabas_client.cluster.metadata_cache import MetadataCache
from barnabas_client.config.client_settings import ClientSettings
from barnabas_client.env import Environment
from barnabas_client.errors import BarnabasError, BrokerUnreachableError, RetriableError
from barnabas_client.network.brokers import Brokers, newest_version
from barnabas_client.network.coordinators import Coordinators, CoordinatorType
from barnabas_client.network.metadata_refresher import MetadataRefresher
from barnabas_client.network.metadata_source import MetadataSource
from barnabas_client.network.node_connections import COORDINATOR_BASE
from barnabas_client.network.sasl import SaslExchange, create_exchange
from barnabas_client.network.tls import create_context
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
        on_picture: Callable[[ClusterMetadata], None],
    ) -> None:
        self.brokers = Brokers(
            settings,
            environment,
            client_id=client_id,
            software_version=distribution.version("barnabas"),
            tls=create_context(settings),
            create_exchange=_exchange_factory(settings),
            on_disconnect=self._disconnected,
        )
        source = MetadataSource(
            self.brokers, cache, environment, lambda: self.refresher.failing_since_ms
        )

        def publish(picture: ClusterMetadata) -> None:
            self.brokers.take_picture(picture)
            on_picture(picture)

        self.refresher = MetadataRefresher(
            cache,
            settings,
            environment,
            ask=source.ask,
            asking=lambda: self.brokers.asking,
            on_picture=publish,
        )
        self.coordinators = Coordinators(
            version=self._coordinator_version, ask=self._ask_node, learn=self.brokers.learn
        )

    async def close(self) -> None:
        """End every task and connection."""
        await self.refresher.close()
        await self.brokers.connections.close()

    def _disconnected(self, node_id: int, error: BarnabasError) -> None:
        """Look again for what the lost broker led or coordinated (CLI-5)."""
        if node_id >= COORDINATOR_BASE:
            self.coordinators.forget_node(node_id)
        if node_id >= 0:
            self.refresher.request()

    async def _coordinator_version(self, kind: CoordinatorType) -> tuple[int, int]:
        """A broker that can be asked for coordinators, and in which version."""
        last: BarnabasError = BrokerUnreachableError("no broker of the cluster is known")
        for node_id in self.brokers.candidates():
            try:
                connection = await self.brokers.connected(
                    node_id, self.brokers.settings.request_timeout_ms
                )
            except RetriableError as error:
                last = error
                continue
            lowest = _LOWEST_VERSION_BY_TYPE[kind]
            return node_id, newest_version(connection, ApiKey.FIND_COORDINATOR, minimum=lowest)
        self.refresher.request()
        raise last

    async def _ask_node(self, node_id: int, request: Any, version: int) -> Any:
        return await self.brokers.request(node_id, request, version, None)


def _exchange_factory(settings: ClientSettings) -> Callable[[str], SaslExchange] | None:
    if not settings.uses_sasl:
        return None
    if settings.sasl_exchange is not None:
        return settings.sasl_exchange
    username, password = settings.sasl_username, settings.sasl_password
    assert username is not None and password is not None

    def create(_: str) -> SaslExchange:
        nonce = secrets.token_urlsafe(24)
        return create_exchange(settings.sasl_mechanism, username, password, nonce)

    return create

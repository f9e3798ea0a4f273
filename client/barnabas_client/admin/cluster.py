"""`admin.cluster`: DescribeCluster (60), UnregisterBroker (64) and UnregisterController (94).

Brokers without DescribeCluster (before Kafka 2.8) are described by Metadata.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas_client.admin.api_errors import error_of
from barnabas_client.admin.lookup_strategies import AnyBrokerStrategy
from barnabas_client.admin.routing import AdminRouting, Call, nameless
from barnabas_client.admin.values.acls import operations_of_bits
from barnabas_client.admin.values.cluster import BrokerDescription, ClusterDescription
from barnabas_client.errors import UnsupportedError
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas_protocol.messages.metadata import MetadataRequest
from barnabas_protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas_protocol.messages.unregister_controller import UnregisterControllerRequest

# The first version that can list fenced brokers (KIP-1073).
_FENCED_BROKERS_VERSION: Final = 2


class Cluster:
    """What can be done about the cluster and its brokers."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        *,
        include_fenced_brokers: bool = False,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterDescription:
        """The cluster and its brokers, in order of their ids.

        Raises: UnsupportedError if fenced brokers are asked for and the broker cannot tell;
        TimedOutError, or what the broker says.
        """
        remaining_ms = self._routing.countdown(timeout_ms)
        call = Call[None, ClusterDescription](
            action="describe the cluster",
            api=ApiKey.DESCRIBE_CLUSTER,
            to=AnyBrokerStrategy(),
            build=lambda context: DescribeClusterRequest(
                include_cluster_authorized_operations=include_authorized_operations,
                include_fenced_brokers=include_fenced_brokers,
            ),
            read=lambda response, context: {None: error_of(response) or _described(response)},
            name=nameless,
            version_min=_FENCED_BROKERS_VERSION if include_fenced_brokers else 0,
        )
        try:
            return await self._routing.one(call, remaining_ms())
        except UnsupportedError:
            if include_fenced_brokers:
                raise
        return await self._describe_by_metadata(include_authorized_operations, remaining_ms())

    async def unregister_broker(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Forget a broker that has been shut down for good.

        Raises: NotFoundError if it is not registered; TimedOutError, or what the broker says.
        """
        call = Call[None, None](
            action=f"unregister broker {node_id}",
            api=ApiKey.UNREGISTER_BROKER,
            to=AnyBrokerStrategy(),
            build=lambda context: UnregisterBrokerRequest(broker_id=node_id),
            read=lambda response, context: {None: error_of(response)},
            name=nameless,
            is_change=True,
        )
        await self._routing.one(call, timeout_ms)

    async def unregister_controller(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Forget a controller that has been shut down for good.

        Raises: RejectedError if it is not registered; TimedOutError, or what the broker says.
        """
        call = Call[None, None](
            action=f"unregister controller {node_id}",
            api=ApiKey.UNREGISTER_CONTROLLER,
            to=AnyBrokerStrategy(),
            build=lambda context: UnregisterControllerRequest(controller_id=node_id),
            read=lambda response, context: {None: error_of(response)},
            name=nameless,
            is_change=True,
        )
        await self._routing.one(call, timeout_ms)

    async def _describe_by_metadata(
        self, include_authorized_operations: bool, timeout_ms: int
    ) -> ClusterDescription:
        call = Call[None, ClusterDescription](
            action="describe the cluster",
            api=ApiKey.METADATA,
            to=AnyBrokerStrategy(),
            build=lambda context: MetadataRequest(
                topics=[],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=include_authorized_operations,
            ),
            read=lambda response, context: {None: _described(response)},
            name=nameless,
            version_min=1,
            # From 11 on the operations are DescribeCluster's affair.
            version_max=10,
        )
        return await self._routing.one(call, timeout_ms)


def _described(response: Any) -> ClusterDescription:
    """Read a response of DescribeCluster or of Metadata, which name a broker's id differently."""
    brokers = (
        BrokerDescription(
            node_id=one.broker_id if hasattr(one, "broker_id") else one.node_id,
            host=one.host,
            port=one.port,
            rack=one.rack,
            is_fenced=getattr(one, "is_fenced", False),
        )
        for one in response.brokers
    )
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=None if response.controller_id < 0 else response.controller_id,
        brokers=tuple(sorted(brokers, key=lambda broker: broker.node_id)),
        authorized_operations=operations_of_bits(response.cluster_authorized_operations),
    )

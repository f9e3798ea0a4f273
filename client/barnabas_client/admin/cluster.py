"""The cluster: DescribeCluster (60), UnregisterBroker (64), UnregisterController (94)."""

from __future__ import annotations

from barnabas_client.admin.routing import AdminRouting
from barnabas_client.admin.values.cluster import ClusterDescription


class Cluster:
    """`admin.cluster`."""

    def __init__(self, routing: AdminRouting) -> None:
        self._routing = routing

    async def describe(
        self,
        *,
        include_fenced_brokers: bool = False,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterDescription:
        """The cluster and its brokers. Raises: what went wrong."""
        raise NotImplementedError

    async def unregister_broker(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Forget a broker that has been shut down for good. Raises: what went wrong."""
        raise NotImplementedError

    async def unregister_controller(self, node_id: int, *, timeout_ms: int | None = None) -> None:
        """Forget a controller that has been shut down for good. Raises: what went wrong."""
        raise NotImplementedError

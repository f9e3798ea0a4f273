"""Clusters whose clients live for one question: see `Evictions`."""

from __future__ import annotations

from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.gateway.kafka_cluster import KafkaCluster


class MomentaryClusters:
    """Connects when a cluster is asked for, until it is forgotten."""

    def __init__(self, admins: AdminPool) -> None:
        """Take a pool that nobody else uses."""
        self._admins = admins

    async def cluster(self, namespace: str, name: str) -> KafkaCluster:
        """The cluster of a Broker. Raises: BarnabasError; KubernetesError."""
        return KafkaCluster(await self._admins.admin(namespace, name))

    async def forget(self, namespace: str, name: str) -> None:
        """Close the connections to it."""
        await self._admins.forget(namespace, name)
